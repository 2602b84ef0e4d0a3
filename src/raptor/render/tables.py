"""Tables for the terminal, the page, notebooks and model cards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from raptor.core.estimate import Estimate

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

    from raptor.runtime.rundir import Record

# Whether a claim holds, in words.
HELD: dict[bool | None, str] = {True: "holds", False: "does not hold", None: "inconclusive"}
VERDICTS: dict[bool | None, str] = {True: "yes", False: "no", None: "inconclusive"}  # as the page's style knows them
NOT_ABOVE_NULL = "not above its null"  # a claim that holds, as well as by chance


def format_number(value: Any, form: str = ".3f") -> str:
    """Return a number as text; "nan" where there is none."""
    if value is None or value != value:  # NaN differs from itself
        return "nan"
    return format(value, form) if form else str(value)


def format_estimate(value: Estimate[float], form: str = ".3f") -> str:
    """Return a number with its interval as text; the number alone where it has none."""
    shown, low, high = (format_number(part, form) for part in (value.value, *value.ci))
    return shown if "nan" in (low, high) else f"{shown} [{low}, {high}]"


def stored_note(command: str | None) -> list[str]:
    """Return a sentence on a result that comes with raptor; nothing for one that was measured now."""
    return [] if command is None else [f"Not measured in this run: comes with raptor, made by `{command}`."]


@dataclass(frozen=True)
class Number:
    """A number in a table or a sentence, with its format and its key in result.json.

    Parameters
    ----------
    value
        A number, an `Estimate`, another value, or None.
    form
        Format specification, such as `.1%`.
    key
        Path in result.json, such as `r2/all/-1`; the page shows it with the run.
    ci_keys
        Keys of both ends of the interval, where they are not `<key>_ci/0` and `<key>_ci/1`.
    shown
        What people read in place of the formatted value, such as the words for a name.
    """

    value: Any
    form: str = ".3f"
    key: str = ""
    ci_keys: tuple[str, str] | None = None
    shown: str | None = None

    def __str__(self) -> str:
        if self.shown is not None:
            return self.shown
        if not isinstance(self.value, Estimate):
            return "" if self.value is None else format_number(self.value, self.form)
        shown, low, high = (format_number(part, self.form) for part in (self.value.value, *self.value.ci))
        return f"{shown} [{low}, {high}]"

    def html(self, run: str = "") -> Markup:
        """Return the number as HTML with its full value, its key and its run; a dash for None and NaN."""
        if not isinstance(self.value, Estimate):
            return self._data(self.value, self.key, run)
        low, high = self.ci_keys or (f"{self.key}_ci/0", f"{self.key}_ci/1")
        return Markup('{} <span class="interval">[{}, {}]</span>').format(
            self._data(self.value.value, self.key, run),
            self._data(self.value.low, low, run),
            self._data(self.value.high, high, run),
        )

    def _data(self, value: Any, key: str, run: str) -> Markup:
        if value is None or value != value:
            return Markup("&mdash;")
        shown = format_number(value, self.form) if self.shown is None else self.shown
        if not key:
            return escape(shown)
        return Markup('<data value="{}" data-run="{}" data-key="{}">{}</data>').format(value, run, key, shown)


@dataclass(frozen=True)
class Phrase:
    """Text with numbers in it, such as `top-1 0.86 [0.84, 0.88]`.

    Parameters
    ----------
    parts
        Text and numbers, which are joined without spaces.
    """

    parts: tuple[str | Number, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.parts))

    def html(self, run: str = "") -> Markup:
        """Return the text, with the full value and the key of each number."""
        return Markup("").join(to_html(part, run) for part in self.parts)


@dataclass(frozen=True)
class Mark:
    """A verdict, which the page marks by shape and colour.

    Parameters
    ----------
    held
        True, false, or None if inconclusive.
    words
        The verdict in words; by default those of `HELD`.
    kind
        What the page marks; by default whether it holds.
    """

    held: bool | None
    words: str = ""
    kind: str = ""

    def __str__(self) -> str:
        return self.words or HELD[self.held]

    def html(self, run: str = "") -> Markup:
        """Return the words, with the verdict as data."""
        return Markup('<span class="verdict" data-held="{}">{}</span>').format(
            self.kind or VERDICTS[self.held], str(self)
        )


@dataclass(frozen=True)
class Link:
    """Text that leads to a figure of the page.

    Parameters
    ----------
    text
        The text.
    figure
        Name of the figure; nothing for text alone.
    """

    text: str
    figure: str = ""

    def __str__(self) -> str:
        return self.text

    def html(self, run: str = "") -> Markup:
        """Return the text, as a link where there is a figure."""
        if not self.figure:
            return escape(self.text)
        return Markup('<a href="#{0}" data-figure="{0}">{1}</a>').format(self.figure, self.text)


Cell = str | Number | Phrase | Mark | Link


@dataclass(frozen=True)
class Table:
    """A table.

    Parameters
    ----------
    title
        What the numbers are, with the number of images.
    columns
        Column names; empty for a list of names and values.
    rows
        Text or numbers. Numbers keep their full value and key on the page.
    drop_columns
        Whether a terminal leaves out the last columns where all do not fit; a line below says how many.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    drop_columns: bool = False

    def html(self, run: str = "") -> Markup:
        """Return the table as HTML, for notebooks."""
        line, head, cell = Markup("<tr>{}</tr>"), Markup("<th>{}</th>"), Markup("<td>{}</td>")
        rows = [[to_html(one, run) for one in row] for row in self.rows]
        body = [line.format(Markup("").join(cell.format(one) for one in row)) for row in rows]
        columns = line.format(Markup("").join(head.format(name) for name in self.columns)) if self.columns else ""
        caption = Markup("<caption>{}</caption>").format(self.title) if self.title else ""
        return Markup("<table>{}{}{}</table>").format(caption, columns, Markup("").join(body))

    def markdown(self) -> str:
        """Return the table as Markdown, for model cards."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join(f"| {' | '.join(str(one) for one in line)} |" for line in lines)


# A part of the output of a verb: a line of text, or a table.
Part = str | Table


def to_html(cell: Cell, run: str = "") -> Markup:
    """Return a cell as html."""
    return escape(cell) if isinstance(cell, str) else cell.html(run)


def file_lines(record: Record[Any]) -> Iterator[str]:
    """Yield lines that list skipped images and the paths of the result and its figures."""
    for damage in record.damaged or ():
        yield f"skipped: {damage.path} ({damage.reason})"
    if record.out is not None:
        yield f"result: {record.out / 'result.json'}"
        for figure in record.figures or ():
            yield f"figure: {record.out / figure}"


def print_parts(console: Console, parts: Iterable[Part]) -> None:
    """Print lines and tables; nothing in them is markup."""
    for part in parts:
        if isinstance(part, Table):
            _print_table(console, part)
        else:
            console.print(part, markup=False, highlight=False, soft_wrap=False)


def _print_table(console: Console, table: Table) -> None:
    from rich.measure import Measurement

    shown, boundless = len(table.columns), console.options.update(max_width=10_000)
    drawn = _rich_table(table, shown)
    while table.drop_columns and shown > 1 and Measurement.get(console, boundless, drawn).maximum > console.width:
        shown -= 1
        drawn = _rich_table(table, shown)
    console.print(drawn)
    if dropped := len(table.columns) - shown:
        console.print(f"{dropped} more column{'s' * (dropped > 1)} did not fit; result.json has all of them")


def _rich_table(table: Table, columns: int) -> RichTable:
    from rich.markup import escape as plain
    from rich.table import Table as RichTable

    drawn = RichTable(title=plain(table.title), show_header=bool(table.columns))
    for name in table.columns[:columns]:
        drawn.add_column(plain(name), no_wrap=table.drop_columns)  # a cell is one line, or it is not shown
    for row in table.rows:
        drawn.add_row(*(plain(str(cell)) for cell in (row[:columns] if table.columns else row)))
    return drawn
