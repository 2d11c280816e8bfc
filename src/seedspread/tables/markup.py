"""Tables in papers and READMEs: Markdown, LaTeX and HTML, with bold, footnote marks and ±."""

import io
import re
from itertools import pairwise

import pandas as pd

from seedspread.errors import require_extra
from seedspread.tables.question import TableError

_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
_BODY = re.compile(r"\\begin\{(tabular[xy*]?|longtable|array)\}(.*?)(?:\\end\{\1\}|\Z)", re.DOTALL)
_COLUMNS = re.compile(r"(\s*\[[^\]]*\])?(\s*\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})+")
_RULES = re.compile(r"\\(toprule|midrule|bottomrule|hline|cmidrule|cline|addlinespace|specialrule|rowcolor)")
_MULTIROW = re.compile(r"\\multirow(?:\[[^\]]*\])?\{(\d+)\}\{[^{}]*\}")
_MULTICOLUMN = re.compile(r"\\multicolumn\{(\d+)\}\{[^{}]*\}")
# Not part of a cell's content: colors, citations, footnotes, marks.
_ASIDE = re.compile(
    r"\\(?:cellcolor|color|cite[a-z]*|footnote[a-z]*|textsuperscript|label|ref|vspace|hspace|rule)\*?"
    r"(?:\[[^\]]*\])?(?:\{[^{}]*\})*|<sup>.*?</sup>|\[\^[^\]]+\]|"
    r"\^\{?\s*(?:\\[a-z]*dagger|\\ast|\\star|[*†‡§¶]|\d)+\s*\}?|\\(?:d?dagger|uparrow|downarrow|ast|star)\b",
    re.IGNORECASE,
)
_PLUS_MINUS = re.compile(
    r"[_^]?\{?\s*\\tiny\s*\\pm|[_^]?\{\s*\\(?:pm|mp)|[_^]\s*\\pm|\\pm|\\textpm|&plusmn;|&pm;|\+/[-−]|\+[-−]"
)
_COMMAND = re.compile(r"\\[a-zA-Z]+\s*(?:\[[^\]]*\])?\{([^{}]*)\}")
_ESCAPED = {r"\%": "%", r"\&": "&", r"\_": "\0", "&nbsp;": " ", "<br>": " ", "$": ""}
_SPACES = re.compile(
    r"\\[,;:! ]|~(?!~)|\\(?:bf|it|small|tiny|scriptsize|footnotesize|bfseries|itshape|centering)\b"
)
_MARKS = "†‡§¶*★☆¹²³⁴⁵⁶⁷⁸⁹⁰↑↓#"


def is_markup(text: str) -> bool:
    lines = text.splitlines()
    ruled = any("|" in line and "|" in rule and _is_rule(rule) for line, rule in pairwise(lines))
    return ruled or "<table" in text.lower() or bool(_BODY.search(text)) or _is_bare_latex(lines)


def _is_rule(line: str) -> bool:
    return "-" in line and _RULE.fullmatch(line) is not None


def _is_bare_latex(lines: list[str]) -> bool:
    rows = [line for line in lines if line.strip() and not _RULES.match(line.strip())]
    ended = ["&" in row and row.split("%")[0].rstrip().endswith(r"\\") for row in rows]
    return bool(rows) and sum(ended) >= 0.6 * len(rows)


def tables_in(text: str, name: str) -> list[pd.DataFrame]:
    """Return every table of a text; the index counts lines, or rows if lines are not rows."""
    if "<table" in text.lower():
        return _html(text, name)
    if bodies := list(_BODY.finditer(text)):
        return [_latex(match[2], text[: match.start(2)].count("\n") + 1) for match in bodies]
    lines = text.splitlines()
    return [_latex(text, 1)] if _is_bare_latex(lines) else _markdown(lines)


def _html(text: str, name: str) -> list[pd.DataFrame]:
    """Read the tables; 0,53 stays as it is (pandas would read 53), and headers of several rows are joined."""
    require_extra("html", f"reading {name}")
    try:
        found = pd.read_html(io.StringIO(text), thousands="'", keep_default_na=False)
    except ValueError as error:
        raise TableError(f"{name} cannot be read as HTML: {error}") from None
    texts = [frame.astype(str).replace("nan", "").to_numpy().tolist() for frame in found]
    names = [[c if isinstance(c, tuple) else (c,) for c in frame.columns] for frame in found]
    heads = [[" ".join(dict.fromkeys(map(str, parts))) for parts in own] for own in names]
    return [_frame([head, *own], range(1, len(own) + 2)) for head, own in zip(heads, texts, strict=True)]


def _markdown(lines: list[str]) -> list[pd.DataFrame]:
    found = []
    for at, line in enumerate(lines[1:], 1):
        if _is_rule(line) and "|" in lines[at - 1] and "|" in line:
            end = next((n for n in range(at + 1, len(lines)) if "|" not in lines[n]), len(lines))
            rows = [_split_row(lines[n]) for n in (at - 1, *range(at + 1, end))]
            found.append(_frame(rows, (at, *range(at + 2, end + 1))))
    return found


def _split_row(line: str) -> list[str]:
    line = re.sub(r"(?<!\\)\|$", "", line.strip().removeprefix("|"))
    return [cell.replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)]


def _latex(body: str, first_line: int) -> pd.DataFrame:
    r"""Read rows that end in `\\\\`; those above the first rule below text are the header."""
    spec = _COLUMNS.match(body)
    rows: list[list[str]] = []
    numbers: list[int] = []
    heads, place = 0, spec.end() if spec and "&" not in spec[0] else 0
    line = first_line + body[:place].count("\n")
    for piece in re.split(r"\\\\(?:\[[^\]]*\])?", body[place:]):
        number = line + len(piece) - len(piece.lstrip("\n"))
        line += piece.count("\n")
        text = re.sub(r"(?<!\\)%.*", "", piece)
        if rows and not heads and re.search(r"\\(midrule|hline)", text):
            heads = len(rows)
        text = re.sub(rf"{_RULES.pattern}(\([^)]*\)|\[[^\]]*\]|\{{[^{{}}]*\}})*", "", text)
        if text.strip():
            rows.append(_spread(text))
            numbers.append(number)
    _fill_multirows(rows)
    heads = min(max(heads, 1), len(rows))
    width = max(map(len, rows), default=0)
    heading = [[clean(row[k]) for row in rows[:heads] if k < len(row)] for k in range(width)]
    header = [" ".join(dict.fromkeys(filter(None, names))) for names in heading]
    return _frame([header, *rows[heads:]], [numbers[0] if numbers else 1, *numbers[heads:]])


def _spread(text: str) -> list[str]:
    """Return the cells of a row; a cell that spans several columns is repeated in each."""
    cells: list[str] = []
    for cell in re.split(r"(?<!\\)&", text):
        match = _MULTICOLUMN.search(cell)
        cells += [_MULTICOLUMN.sub("", cell)] * (int(match[1]) if match else 1)
    return cells


def _fill_multirows(rows: list[list[str]]) -> None:
    for at, row in enumerate(rows):
        for k, cell in enumerate(row):
            if match := _MULTIROW.search(cell):
                row[k] = _MULTIROW.sub("", cell)
                for below in rows[at + 1 : at + int(match[1])]:
                    if k < len(below) and not below[k].strip():
                        below[k] = row[k]


def _frame(rows: "list[list[str]]", numbers: "range | tuple[int, ...] | list[int]") -> pd.DataFrame:
    cells = [[clean(cell) for cell in row] for row in rows]
    width = len(cells[0]) if cells else 0
    # A title that spans all columns is not a row.
    kept = [k for k, row in enumerate(cells) if k and any(row) and (len(row) < 3 or len({*row}) > 1)]
    long = next((numbers[k] for k in kept if len(cells[k]) > width), None)
    if long is not None:
        raise TableError(f"row {long} has more cells than the header ({width})")
    head = cells[0] if cells else []
    names = [name or (f"column {k + 1}" if k else "row") for k, name in enumerate(head)]
    body = [cells[k] + [""] * (width - len(cells[k])) for k in kept]
    return pd.DataFrame(body, columns=names, index=[numbers[k] for k in kept], dtype=object)


def clean(cell: str) -> str:
    """Return a cell's text without markup and footnote marks, and with `±` in one spelling."""
    cell = _PLUS_MINUS.sub("±", _ASIDE.sub("", cell))
    before = None
    while before != cell:
        before, cell = cell, _COMMAND.sub(r"\1", cell)
    for written, plain in _ESCAPED.items():
        cell = cell.replace(written, plain)
    cell = _SPACES.sub(" ", cell)
    cell = re.sub(r"<[^<>]+>|[{}`]|~~|\[([^\]]*)\]\([^)]*\)", r"\1", cell)
    cell = re.sub(r"(?<![\w*])(\*{1,3}|_{1,3})(?=\S)(.+?)(?<=\S)\1(?![\w*])", r"\2", cell)
    return re.sub(r"\s+", " ", cell.replace("\0", "_").replace("±", " ± ")).strip().strip(_MARKS).strip()
