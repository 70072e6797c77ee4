"""Tests scripts/commits.py: the tags that it reads, commits that it passes and
commits that it refuses."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import commits  # noqa: E402

WHY = "A layer is served without its trials."
FIGURES = "H200, m=16 n=4096: 12.3 us before, 11.1 us after, spread 1 %."

PASSED = [
    ("[Tune] Serve a layer without trials", WHY),
    ("[Families, Docs] Keep the scales of a group", WHY),
    ("[Docs] Name the formats of packed weights", ""),
    ("[Tests, Docs] Compare the tables", ""),
    ("[Docs] Tell the speed of decoding", ""),
    ("[Kernels] Make narrow copies faster", WHY + "\n\n" + FIGURES),
]
REFUSED = [
    ("Serve a layer", WHY, "is not"),
    ("[Runtim] Serve a layer", WHY, "the tag Runtim"),
    ("[Tune,Docs] Serve a layer", WHY, "the tag Tune,Docs"),
    ("[Tune, Docs, Tests] Serve a layer", WHY, "3 tags"),
    ("[Tune] serve a layer", WHY, "lower case"),
    ("[Tune] Serve a layer.", WHY, "full stop"),
    ("[Tune] Serve a layer", "", "no body"),
    ("[Tests, Tune] Serve a layer", "\n", "no body"),
    ("[Tune] Serve a layer", "Signed-off-by: A <a@b.c>\n", "no body"),
    ("[Kernels] Make narrow copies faster", WHY, "no figures"),
    ("[Kernels] Double the speed of copies", "It is 11.1 us.", "no figures"),
]


class CommitsTest(unittest.TestCase):
    def setUp(self):
        self.tags = commits.tags(commits.PAGE.read_text(encoding="utf-8"))

    def test_tags_are_those_of_the_page(self):
        self.assertLessEqual({"Families", "Kernels", "API", "Docs", "Build"},
                             self.tags)
        self.assertNotIn("lib", self.tags)
        self.assertEqual(
            commits.tags("`a`\n| tag | for |\n|---|---|\n| `A`, `B` | `c` |\n"
                         "\n| `d` | e |\n"), {"A", "B"})

    def test_passed(self):
        for title, body in PASSED:
            self.assertEqual(commits.faults(title, body, self.tags), [], title)

    def test_refused(self):
        for title, body, part in REFUSED:
            found = commits.faults(title, body, self.tags)
            self.assertEqual(len(found), 1, (title, found))
            self.assertIn(part, found[0])


if __name__ == "__main__":
    unittest.main()
