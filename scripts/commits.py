#!/usr/bin/env python3
"""Checks commits against the section "Commits" of docs/contributing.md.

    commits.py --check BASE..HEAD   prints commit: fault; exit code 1: a fault
    commits.py --tags               the tags, as the page's table lists them

A title is "[Tag] Imperative title" or "[Tag, Tag] ..." with tags of the page. A
commit that is not of Docs or Tests alone has a body, which says why. A commit
whose title speaks of speed has the figures before and after in its body.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "contributing.md"

TITLE = re.compile(r"\[([^\]]*)\] (\S.*)")
# Git's own lines at the end of a body.
TRAILER = re.compile(r"[A-Z][A-Za-z]*(?:-[A-Za-z]+)+: ")
SPEED = re.compile(r"\b(?:fast(?:er|est)|quick(?:er|est)|slow(?:er|est)|cheaper"
                   r"|speeds?|speedups?|sped|latency|throughput)\b",
                   re.IGNORECASE)
FIGURE = re.compile(r"\d(?:\.\d+)? ?(?:%|(?:[nmu]?s|µs|x|times|percent|[TG]FLOPS"
                    r"|[TG]FLOP/s|[TG]B/s)\b)")
WITHOUT_BODY = {"Docs", "Tests"}
MOST_TAGS = 2


def tags(page):
    """The tags of the table whose head is "| tag |"."""
    found = set()
    in_table = False
    for line in page.splitlines():
        in_table = line.startswith("| tag |") or (in_table
                                                  and line.startswith("|"))
        if in_table:
            found.update(re.findall(r"`([^`]*)`", line.split("|")[1]))
    return found


def faults(title, body, known):
    """The faults of a commit, in words."""
    match = TITLE.fullmatch(title)
    if not match:
        return ['the title is not "[Tag] Imperative title"']
    found = []
    named = match[1].split(", ")
    found += [f"the tag {tag} is not in docs/contributing.md"
              for tag in named if tag not in known]
    if len(named) > MOST_TAGS:
        found.append(f"it has {len(named)} tags")
    if not match[2][0].isupper() or match[2].endswith("."):
        found.append("the title begins in lower case or ends with a full stop")
    lines = [line for line in body.splitlines()
             if line.strip() and not TRAILER.match(line)]
    if not WITHOUT_BODY.issuperset(named):
        if not lines:
            found.append("no body says why")
        elif SPEED.search(match[2]) and len(FIGURE.findall(body)) < 2:
            found.append("the title speaks of speed, and the body has no "
                         "figures before and after")
    return found


def check(revisions):
    known = tags(PAGE.read_text(encoding="utf-8"))
    log = subprocess.run(
        ["git", "log", "--no-merges", "-z", "--format=%h%n%s%n%b", revisions,
         "--"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    is_good = True
    for commit in filter(None, log.split("\0")):
        name, title, body = commit.split("\n", 2)
        for fault in faults(title, body, known):
            print(f"{name}: {title}: {fault}")
            is_good = False
    return is_good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", metavar="BASE..HEAD")
    parser.add_argument("--tags", action="store_true")
    options = parser.parse_args()
    if options.tags:
        print("\n".join(sorted(tags(PAGE.read_text(encoding="utf-8")))))
    if options.check and not check(options.check):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
