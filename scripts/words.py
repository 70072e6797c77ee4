#!/usr/bin/env python3
"""Finds phrases that the house style replaces, in comments, docs and messages.

    words.py --check            prints file:line: phrase -> replacement
    words.py --check PATH ...   in these files or folders alone
    words.py --count            findings of each folder
    words.py --rules            the rules with their reasons

A comment or paragraph is joined over its line ends first, so a phrase that a
line end breaks is found. Code, code blocks and inline code are not read, and
string literals only by rules whose scope names messages.
"""
import argparse
import bisect
import collections
import pathlib
import re
import sys

import wordsText

ROOT = pathlib.Path(__file__).resolve().parent.parent

COMMENTS, DOCS, MESSAGES = "comments", "docs", "messages"
TEXT = (COMMENTS, DOCS)
ALL = (COMMENTS, DOCS, MESSAGES)

# A sentence or clause begins with the text, or after one of . : ; ? ! (
START = (r"(?:^|(?<=[.:;?!] )|(?<=\())(?<!e\.g\. )(?<!i\.e\. )(?<!vs\. )")
# The same without the parenthesis: "(of 64 rows)" is good English.
CLAUSE = r"(?:^|(?<=[.:;?!] ))"
# A question may begin so.
NO_QUESTION = r"(?![^.;:]*\?)"
NUMBER = r"(?:\d|one of|two|three|four|five|six|seven|eight|nine|ten|twelve)"

Rule = collections.namedtuple("Rule",
                              "pattern replacement scope why unless")


def rule(pattern, replacement, scope, why, unless=None):
    """Text that matches `unless` right before a phrase excuses it."""
    return Rule(re.compile(pattern), replacement, scope, why,
                unless and re.compile(f"(?:{unless})$"))


SUBJECT = "the subject goes first, and it is a noun"
PERSON = "code, threads and kernels are no persons"
NOUN = "a noun that is left out has to be guessed"
FIELD = "the field has a word for it"
ONE = "one word is one thing"

RULES = [
    # Sentences that begin with a clause in place of a noun.
    rule(START + r"(?i:what) (?!to )(?!if )" + NO_QUESTION,
         "the noun, or a verb: 'The bytes that ...', 'Returns ...'", TEXT,
         SUBJECT),
    rule(r"\b(?:only|that|than|and that|just|as if) what\b",
         "the noun: 'only the kernels that ...'", TEXT, SUBJECT),
    rule(r"\b(?:is|are|was|were) what (?:its|it|they|their|he|each)\b",
         "the noun: 'is the problem that its caller ...'", TEXT, SUBJECT),
    rule(CLAUSE + r"(?:Of|(?<=[.:;?!] )of) (?!which\b|course\b)"
         r"(?!(?:the |these |those |its |all |some |other )*" + NUMBER + r"\b)"
         r"(?!(?:the |these )*\d)",
         "the subject first: 'Whether a range ...', 'For a range, ...'", TEXT,
         SUBJECT),
    rule(r"(?:" + START + r"[Tt]|(?<=, )t)hose "
         r"(?:that|which|of|who|whose|with|without|in|beyond|for|behind)\b",
         "the noun again: 'Ends that are negative ...'", TEXT, NOUN,
         unless=r"Errors: [^.]*"),
    # Nouns that are left out.
    rule(r"\bof theirs\b", "the noun again: 'of the largest region'", TEXT,
         NOUN),
    rule(r"\bnone that\b", "no ... that", TEXT, NOUN),
    rule(r"\bthe same of\b", "the same ... as", TEXT, NOUN),
    rule(r"\bas it was\b(?! (?:when|before|seen|known|described|given))",
         "unchanged", TEXT, NOUN),
    rule(r"\bthan there (?:are|is)(?=[.,;:)]|$)",
         "than exist; at most the number of", TEXT, NOUN),
    rule(r"(?<![Tt]here )\b(?:is|are|was|were) none\b(?! of)",
         "is not a ...; is not one", TEXT, "a negation that is read twice"),
    # Persons.
    rule(r"\b(?i:(?:no|any|some|every)body)\b|\b[Nn]o one\b",
         "no caller, any thread, each reader", ALL, PERSON),
    rule(r"(?<!user )(?<!users )(?<!reader )(?<!readers )(?<!author )"
         r"(?<!people )(?<!engineers )(?<!engineer )(?<!person )"
         r"\b(?:[Ww]ho|whom|whoever)\b",
         "the caller that, the thread that", ALL, PERSON),
    rule(r"\b(?:know|knows|knew) nothing (?:of|about)\b",
         "does not depend on; has no field for", TEXT, PERSON),
    rule(r"\bwhat (?:it|they|each|he) wants?\b",
         "the registers that it needs", TEXT, PERSON),
    rule(r"\b(?:does|do) not mind\b", "works with", ALL, PERSON),
    rule(r"\bha(?:s|ve) no words?\b", "fails for", ALL, PERSON),
    rule(r"\bha(?:s|ve|d) words? for\b", "report these; refuses", ALL, PERSON),
    # Words that are out of use, or mean something else.
    rule(r"\b(?i:anew)\b", "again", ALL, "a plain word"),
    rule(r"\bon (?:the|its|their) way\b", "in flight; along the path", ALL,
         "a plain word"),
    rule(r"\bbut for\b", "except for", ALL, "a plain word"),
    rule(r"\bby turns\b", "alternately; one at a time", ALL, "a plain word"),
    rule(r"\bhardly (?:ever|any|a)\b", "rarely; few", ALL, "a plain word"),
    rule(r"\bothers than\b", "other than; except", ALL, "grammar"),
    # The field's words.
    rule(r"(?<!MoE \()\bmixtures? of experts\b(?! \(MoE\))|\bmixtures'",
         "MoE; grouped GEMM", ALL, FIELD),
    rule(r"\bthat memory sets\b", "memory-bound", ALL, FIELD),
    rule(r"(?<!multi-head )\b[Ll]atent attention\b(?! \(MLA\))", "MLA", ALL,
         FIELD),
    rule(r"\bsplits? of k\b", "split-K", ALL, FIELD),
    rule(r"\bscales? of blocks?\b", "block scale(s)", ALL, FIELD),
    # One word is one thing.
    rule(r"\b(?:[Pp]roblem|[Cc]onfig|[Ss]ignature)(?:'s)? records?\b"
         r"|\brecords? of (?:\\p |an? |the |its |each |this )?"
         r"(?:problem|config|signature|call)s?\b|\bRecordSchema\b",
         "values (Values), schema (Schema)", TEXT,
         ONE + ": a record is the stored facts of a layer"),
    rule(r"\b(?:[Rr]ead|[Ww]rite|[Rr]ead-only|[Cc]ache) layers?\b"
         r"|\blayers? of (?:the|a|its) cache\b", "tier", ALL,
         ONE + ": a layer is a problem without its dynamic extents"),
    rule(r"\b[Rr]eference streams?\b", "copy baseline", ALL,
         ONE + ": a stream is CUDA's, the reference is the naive kernel"),
    rule(r"\b[Mm]emory-bound streams?\b", "memory pass", ALL,
         ONE + ": a stream is CUDA's"),
    rule(r"(?:^|[.:;] )Slots?\.$|[:;] slots?$|\breserved slots?\b",
         "reserved", TEXT,
         ONE + ": a slot is an index of kiln_arguments.operands"),
]

# (file, part of the paragraph): why the phrase stays. Tiny.
ALLOWED = {
}

# Where strings are messages.
MESSAGE_FOLDERS = ("include/", "lib/", "tools/")
FOLDERS = ["include", "lib", "kernel_src", "tools", "unittests", "examples",
           "benchmarks", "scripts", "cmake", "docs"]
PAGES = ["README.md", "CHANGELOG.md"]
SKIPPED = {"golden", "goldens", "results", "__pycache__", "build"}


def files():
    """All files with text to read, relative to the project."""
    for name in PAGES:
        if (ROOT / name).is_file():
            yield pathlib.PurePath(name)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            relative = path.relative_to(ROOT)
            if (path.is_file() and wordsText.can_read(relative)
                    and not SKIPPED.intersection(relative.parts)):
                yield relative


def is_allowed(path, text):
    return any(path == file and part in text for file, part in ALLOWED)


def matches(text, scope):
    """(offset, phrase, rule) of each finding in joined text."""
    for rule in RULES:
        if scope in rule.scope:
            for match in rule.pattern.finditer(text):
                if rule.unless and rule.unless.search(text[:match.start()]):
                    continue
                end = max(match.end(), match.start() + 1)
                phrase = text[match.start():end + 24].strip()
                yield match.start(), phrase, rule


def findings(path, text):
    """(line, phrase, rule) of each finding in a file."""
    for unit in wordsText.units(path, text):
        if unit.scope == MESSAGES and not str(path).startswith(
                MESSAGE_FOLDERS):
            continue
        if is_allowed(str(path), unit.text):
            continue
        for offset, phrase, rule in matches(unit.text, unit.scope):
            at = bisect.bisect_right(unit.offsets, offset) - 1
            yield unit.lines[at], phrase, rule


def is_below(path, entries):
    return any(path == entry or path.startswith(entry + "/")
               for entry in entries)


def check(only):
    found = False
    for path in files():
        name = path.as_posix()
        if only and not is_below(name, only):
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        for line, phrase, rule in sorted(findings(path, text)):
            print(f"{name}:{line}: {phrase} -> {rule.replacement}")
            found = True
    return found


def count():
    folders = collections.Counter()
    for path in files():
        name = path.as_posix()
        key = "/".join(path.parts[:2]) if len(path.parts) > 1 else name
        text = (ROOT / path).read_text(encoding="utf-8")
        folders[key] += len(list(findings(path, text)))
    for folder, number in sorted(folders.items()):
        if number:
            print(f"{number:6} {folder}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--rules", action="store_true")
    parser.add_argument("paths", nargs="*", metavar="PATH")
    options = parser.parse_args()
    if options.rules:
        for rule in RULES:
            print(f"{rule.pattern.pattern}\n    -> {rule.replacement} "
                  f"[{', '.join(rule.scope)}] {rule.why}")
    if options.count:
        count()
    if options.check and check([path.rstrip("/") for path in options.paths]):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
