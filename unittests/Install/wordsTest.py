"""Tests scripts/words.py: sentences that it finds, sentences that it passes,
and the comments, pages and messages that it reads."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import words  # noqa: E402

# Each had to be read twice.
FOUND = [
    "so that plans may share one that stays zeroed, its zeroed region is as "
    "large as the largest of theirs, the rest as the largest rest",
    "What it launches for the first time may get the estimator's choice, "
    "KILN_IN_PROGRESS where it is what its caller works on, or ...",
    "Those that are negative count as 0, those beyond m or `room` as that. "
    "Ends that fall give rows of D that anybody may have written",
    "Rows of a box of an operand that is stored along k: of each block of a "
    "cluster that shares the tile its part, in halves where a box has no "
    "place for them, and no more than there are, in whole pairs where they "
    "are finished so",
    "The batch that takes as long as the groups of \\p problem do, as far as "
    "anybody knows who has not seen their sizes",
    "What a thread keeps of a row: of softmax its exponentials as well, which "
    "halves what is computed, of norms to quantise its weighted values as "
    "well, which spares a quarter",
    "What takes as long as three things beside each other in a stage, of "
    "which consumers hide each other's waits in part: they wait at the same "
    "time by chance",
    "a load waits for a moment without launches, a millisecond, or a tenth of "
    "it where that does not come soon: then who launches waits for the "
    "device, or has nothing in flight",
    "The entry had been as it was for so long that none that came later can "
    "look like it",
    "Of what ptxas gives kernels of 9.0 and 8.0 (CUDA 13.0): the least `rest` "
    "that tells those that spill",
    "Of one with trials, or of a range: whether nothing cut short what run() "
    "did, so that doing it again would find no more",
    "no field may differ, except that more alignment is as good, and that "
    "what a launch alone says is its own where plans know nothing of it",
    "Blocks that the compiler makes fit an SM by giving each fewer registers; "
    "0: as many as leave each what it wants",
    "Where trials can be made only what is as good as they are: with today's "
    "kernels",
    "Six of the layers that say so are none that the search was developed on",
    # One of each further kind.
    "The rest is known. What is left is compiled",
    "The table (what a launch meets) stays",
    "Of a range: whether it is stored",
    "Those of the batch go first",
    "the same of B",
    "It is read anew",
    "The copy is on the way",
    "All but for the first",
    "They run by turns",
    "The kernel does not mind odd rows",
    "It has no words for such a problem",
    "QuantizedD and GemmScales have words for these",
    "That is hardly ever so",
    "The rows of mixtures of experts",
    "A problem that memory sets",
    "the keys of latent attention",
    "The runner-up has another split of k",
    "The key of the problem's record",
    "Entries of the write layer",
    "0.97 of a reference stream",
]

PASSED = [
    "Returns the bytes that a launch has to move, without its weights.",
    "Whether nothing cut run() short.",
    "It says what is missing, and why.",
    "What bounds a kernel of few rows? Latency does.",
    "Of 8 kernels that fit, the estimate picked the first.",
    "Of the 12 layers, 3 were measured.",
    "Ends that are negative count as 0.",
    "There is none in the cache.",
    "Loads a plan. Errors: DeviceOutOfMemory, those of the driver.",
    "The environment as it was when the process began.",
    "Room for more tokens than there are queries.",
    "None of them is loaded.",
    "Kernels whose registers spill are pruned.",
    "The rows (of a group) are contiguous.",
    "Stored facts of a layer lie in its record.",
    "MLA: the cache holds latent rows of 576 elements.",
    "A block may not exceed shared memory, but it may use all of it.",
    "Twelve runs (of which three failed), e.g. what `--all` gives.",
    "`what` is the name of the field.",
]

C = '''// The first line, and a clause that ends: what
// is left of it.
int a; ///< bytes
int b; ///< the rows (what
       ///< a tile has)
const char *text = "// What is no comment", *more = R"(// Of code: nobody)";
int c = 1'000; // nobody's
/* One. Those that
 * follow */
auto message = "a message that has "
               "nobody as its reader";
'''
PYTHON = '''"""Head.

    nobody reads code here
"""
text = "# nobody"
count = 1  # nobody's
# The sum: what
# is left
'''
SHELL = '''#!/bin/sh
echo "# nobody" '# nobody' ${x#nobody} # nobody's
cat <<END
# nobody
END
'''
PAGE = '''# Heads

Some words: what
is left, and `nobody`.

```
nobody
```
| cell | nobody's |
'''


class RulesTest(unittest.TestCase):
    def test_found(self):
        for sentence in FOUND:
            for suffix, head in ((".md", ""), (".h", "/// "), (".py", "# ")):
                self.assertTrue(self.lines("a" + suffix, head + sentence),
                                sentence)

    def test_found_over_line_ends(self):
        for sentence in FOUND:
            text = "\n".join("// " + word for word in sentence.split())
            self.assertTrue(self.lines("a.h", text), sentence)

    def test_passed(self):
        for sentence in PASSED:
            for suffix, head in ((".md", ""), (".h", "/// "), (".py", "# ")):
                self.assertEqual(self.lines("a" + suffix, head + sentence),
                                 [], sentence)

    def test_rules_are_explained(self):
        for rule in words.RULES:
            self.assertTrue(rule.replacement and rule.why)
            self.assertLessEqual(set(rule.scope), set(words.ALL))

    def lines(self, name, text):
        path = pathlib.PurePosixPath("lib") / name
        return [line for line, _, _ in words.findings(path, text)]


class TextTest(unittest.TestCase):
    def lines(self, name, text):
        return sorted({line for line, _, _ in words.findings(
            pathlib.PurePosixPath(name), text)})

    def test_c(self):
        self.assertEqual(self.lines("lib/a.cpp", C), [1, 4, 7, 8, 11])
        # Strings are messages in some folders alone.
        self.assertEqual(self.lines("unittests/a.cpp", C), [1, 4, 7, 8])

    def test_python(self):
        self.assertEqual(self.lines("scripts/a.py", PYTHON), [6, 7])

    def test_shell_and_cmake(self):
        self.assertEqual(self.lines("scripts/a.sh", SHELL), [2])
        self.assertEqual(self.lines("lib/CMakeLists.txt",
                                    'set(a "# nobody") # nobody\n'), [1])

    def test_page(self):
        self.assertEqual(self.lines("docs/a.md", PAGE), [3, 9])


class TreeTest(unittest.TestCase):
    def test_allowed_exist(self):
        for entry in words.ALLOWED:
            self.assertTrue((ROOT / entry[0]).exists(), entry)
        self.assertLessEqual(len(words.ALLOWED), 8)

    def test_clean(self):
        self.assertFalse(words.check([]))


if __name__ == "__main__":
    unittest.main()
