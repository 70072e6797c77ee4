"""The sentence that each section of benchmarks/README.md begins with. It
follows its template, a comment in front of it, whose figures are looked up:
    <!-- verdict TEXT {RESULT|STATE|PART|FIGURE} TEXT -->
RESULT is a file of benchmarks/results; STATE a state of a draw, or nothing;
PART a band or group of the draw, the beginning of cases' names, or nothing;
FIGURE is geomean, least, greatest, count or, of neighbours, missed.
"""
import re
import textwrap

import frontPage

VERDICT = re.compile(r"<!-- verdict (?P<text>.*?) -->\n(?:.*?)(?=\n\n)",
                     re.DOTALL)
FIGURE = re.compile(r"\{([^{}|]+)\|([^|]*)\|([^|]*)\|(\w+)\}")


def figure(match):
    """The text that replaces a template's reference. Errors: KeyError."""
    result, state, part, key = match.groups()
    if not state:
        row = vars(frontPage.Row("", result, cases=part, peer="any"))
    else:
        row = vars(frontPage.Row("", result, state))
        row = row["bands"][part] if part else row
    value = row["cases" if key == "count" and part and state else key]
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def wrapped(text):
    return "\n".join(textwrap.wrap(text, 120, break_on_hyphens=False))


def sentence(match):
    template = " ".join(match["text"].split())
    return (wrapped(f"<!-- verdict {template} -->") + "\n" +
            wrapped(f"**{FIGURE.sub(figure, template)}**"))


def updated(text):
    """A page's text with every verdict's figures looked up again."""
    return VERDICT.sub(sentence, text)
