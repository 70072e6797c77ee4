"""The prose of a file, for words.py: its comments, paragraphs and messages.

A unit is a comment, a paragraph, a list item, a cell of a table or a message,
with its lines joined by blanks.
"""
import collections
import io
import re
import tokenize

Unit = collections.namedtuple("Unit", "scope text lines offsets")

C_SUFFIXES = {".c", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".def"}
SHELL_SUFFIXES = {".sh"}

C_TOKEN = re.compile(
    r"""(?P<line>//[^\n]*)
    |(?P<block>/\*.*?\*/)
    |(?P<raw>R"(?P<mark>[^()\s\\]*)\(.*?\)(?P=mark)")
    |(?P<string>"(?:\\.|[^"\\\n])*")
    |(?P<char>(?<![0-9a-zA-Z])'(?:\\.|[^'\\\n])*')""",
    re.DOTALL | re.VERBOSE)
ITEM = re.compile(r"(?:[-*]|\(?\d+[.)])\s+")
COMMAND = re.compile(r"[\\@](?:param(?:\[\w+\])?\s+\w+|returns?|brief|note)\s*")
RULER = re.compile(r"[-=/*#+~]{3,}")


def can_read(path):
    return (path.suffix in C_SUFFIXES | SHELL_SUFFIXES
            | {".py", ".md", ".cmake"} or path.name == "CMakeLists.txt")


def units(path, text):
    """The units of a file, in order."""
    if path.suffix == ".md":
        return pages(text)
    if path.suffix in C_SUFFIXES:
        return of_c(text)
    if path.suffix == ".py":
        return paragraphs(python_lines(text))
    return paragraphs(hash_lines(text, path.suffix in SHELL_SUFFIXES))


def join(scope, pieces):
    """A unit of (line, text) pairs."""
    if scope != "messages":
        whole = plain("\n".join(piece for _, piece in pieces)).split("\n")
        pieces = [(line, piece)
                  for (line, _), piece in zip(pieces, whole)]
    text, lines, offsets = "", [], []
    for line, piece in pieces:
        piece = " ".join(piece.split())
        if not piece:
            continue
        if text:
            text += " "
        lines.append(line)
        offsets.append(len(text))
        text += piece
    return Unit(scope, text, lines, offsets)


def plain(text):
    """Text without inline code, targets of links and marks of emphasis."""

    def keep_lines(with_text):
        return lambda match: with_text + "\n" * match[0].count("\n")

    text = re.sub(r"`[^`]*`", keep_lines("X"), text)
    text = re.sub(r"\]\([^)]*\)", keep_lines("]"), text)
    return text.replace("**", "").replace("*", "")


def paragraphs(lines, scope="comments"):
    """Units of comments; lines are (line, key, text).

    Neighbours of one key are one comment. An empty line, an item of a list
    and a command of Doxygen begin a unit.
    """
    pieces, last = [], None
    for line, key, text in lines:
        text = text.strip()
        first = COMMAND.match(text) or ITEM.match(text)
        starts = (last != (line - 1, key) or not text or first
                  or RULER.fullmatch(text))
        if starts and pieces:
            yield join(scope, pieces)
            pieces = []
        if first:
            text = text[first.end():]
        text = RULER.sub("", text)
        if text.strip():
            pieces.append((line, text))
        last = (line, key)
    if pieces:
        yield join(scope, pieces)


def of_c(text):
    """Comments and strings of C, C++ and CUDA."""
    comments, strings, end = [], [], 0
    line, counted = 1, 0
    for match in C_TOKEN.finditer(text):
        line += text.count("\n", counted, match.start())
        counted = match.start()
        between = text[end:match.start()]
        end = match.end()
        kind = match.lastgroup if match["mark"] is None else "raw"
        body = match.group()
        begin = text.rfind("\n", 0, match.start()) + 1
        column = match.start() - begin
        if kind == "line":
            own = not text[begin:match.start()].strip()
            # A comment behind code goes on in lines of its own below it.
            key = column if own else (column, line)
            if own and comments and comments[-1][0] == line - 1:
                before = comments[-1][1]
                if isinstance(before, tuple) and before[0] == column:
                    key = before
            comments.append((line, key, re.sub(r"^//+[!<]*", "", body)))
        elif kind == "block":
            for i, part in enumerate(body[2:-2].split("\n")):
                part = re.sub(r"^\s*\*+[!<]*", "", part)
                comments.append((line + i, ("block", match.start()), part))
        elif kind == "string":
            # Strings that follow each other are one.
            if not strings or between.strip():
                strings.append([])
            strings[-1].append((line, body[1:-1]))
    yield from paragraphs(comments)
    for pieces in strings:
        unit = join("messages", pieces)
        if " " in unit.text:
            yield unit


def python_lines(text):
    """(line, key, text) of Python's comments and documentation strings."""
    previous = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line, column = token.start
        if token.type == tokenize.COMMENT:
            own = not token.line[:column].strip()
            yield line, column if own else (column, line), token.string[1:]
            continue
        if token.type == tokenize.STRING and previous in (
                tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            body = token.string.strip("rRbBuU\"'")
            for i, part in enumerate(body.split("\n")):
                # Indented lines are code.
                part = "" if part.startswith(" " * (column + 4)) else part
                yield line + i, ("string", line), part
        if token.type != tokenize.NL:
            previous = token.type


def hash_lines(text, is_shell):
    """(line, key, text) of the comments of a shell script or of CMake."""
    quote, here = "", ""
    for number, line in enumerate(text.split("\n"), 1):
        if here:
            here = "" if line.strip() == here else here
            continue
        column = 0
        while column < len(line):
            char = line[column]
            if char == "\\" and quote != "'":
                column += 1
            elif quote:
                quote = "" if char == quote else quote
            elif char == '"' or (char == "'" and is_shell):
                quote = char
            elif char == "#" and (not column or line[column - 1] in " \t;"):
                if not line.startswith("#!"):
                    own = not line[:column].strip()
                    yield (number, column if own else (column, number),
                           line[column + 1:])
                break
            column += 1
        if is_shell and not quote:
            match = re.search(r"<<-?\s*['\"]?(\w+)['\"]?", line)
            here = match[1] if match and "<<<" not in line else ""


def pages(text):
    """The units of Markdown."""
    pieces, is_code, is_remark = [], False, False
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        is_fence = line.startswith("```")
        if line.startswith("<!--"):
            is_remark = True
        item = ITEM.match(line)
        breaks = (is_fence or is_remark or not line or item
                  or line[:1] in "|#")
        if breaks and pieces:
            yield join("docs", pieces)
            pieces = []
        if is_fence:
            is_code = not is_code
        elif is_remark:
            is_remark = "-->" not in line
        elif is_code or not line:
            continue
        elif line.startswith("|"):
            for cell in re.sub(r"`[^`]*`", "X", line).strip("|").split("|"):
                yield join("docs", [(number, cell)])
        elif line.startswith("#"):
            yield join("docs", [(number, line.lstrip("#"))])
        else:
            line = line[item.end():] if item else line
            pieces.append((number, line))
    if pieces:
        yield join("docs", pieces)
