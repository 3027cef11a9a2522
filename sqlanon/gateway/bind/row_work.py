"""The most work that one row of a person can cause, known from the text of a statement and the policy alone.

How long a statement runs must not tell of one person. So a row may cost only so much: text functions are linear in the
characters that they look at, texts of tables are cut to `max_length`, a pattern counts for every place where it may
begin, and a row counts for each copy that joins make of it. A unit of work is about one addition, a nanosecond or two;
a character costs some of them. A column of a subquery costs what it is computed from, wherever it is named: engines
write the one in place of the other.
"""

from __future__ import annotations

from sqlglot import exp

from sqlanon.errors import Refused

WORK = "work"  # what a node costs, in `meta`
MOST_WORK = 2_000_000  # of a row with all copies that joins make of it
CHARACTER = 5  # units that one look at one character costs
BYTEWISE = 4  # characters that are copied, hashed or tested for equality in one unit
SORTING = 10  # comparisons that a row takes part in while it is sorted among those of its person
LONGEST_TEXT = 10_000  # characters of any text that is computed with


def weigh_text(tree: exp.Expr, characters: int) -> exp.Expr:
    """The same tree, whose uppermost node looks at so many characters."""
    return weigh(tree, CHARACTER * characters)


def weigh_comparison(tree: exp.Expr, characters: int, *, bytewise: bool) -> exp.Expr:
    """The same tree, which compares texts of so many characters. A collation looks at each; equality needs none.

    >>> [work_of(weigh_comparison(exp.LT(), 800, bytewise=bytewise)) for bytewise in (False, True)]
    [4001, 201]
    """
    return weigh(tree, 1 + (characters // BYTEWISE if bytewise else CHARACTER * characters))


def weigh(tree: exp.Expr, work: int) -> exp.Expr:
    """The same tree, whose uppermost node costs so much."""
    tree.meta[WORK] = work
    return tree


def weigh_nothing(tree: exp.Expr) -> exp.Expr:
    """The same tree, which is done once for a row, before joins make copies of it."""
    for node in tree.walk():
        node.meta[WORK] = 0
    return tree


def work_of(tree: exp.Expr) -> int:
    """What all nodes of a tree cost together; names and literals cost nothing.

    >>> work_of(exp.Lower(this=weigh(exp.column("x"), 500)))
    501
    """
    return sum(node.meta[WORK] if WORK in node.meta else _own(node) for node in tree.walk())


def _own(node: exp.Expr) -> int:
    return int(isinstance(node, exp.Condition) and not isinstance(node, exp.Literal | exp.Paren | exp.Boolean))


def cut_text(tree: exp.Expr, most: int) -> exp.Expr:
    """A text of at most so many characters. Engines know the length in bytes without a look at the text.

    >>> cut_text(exp.column("x"), 100).sql()
    'CASE WHEN BIT_LENGTH(x) > 800 THEN LEFT(x, 100) ELSE x END'
    """
    long = exp.Anonymous(this="BIT_LENGTH", expressions=[tree.copy()])
    short = weigh(exp.Left(this=tree.copy(), expression=exp.Literal.number(most)), most)  # a copy, and no more
    test = exp.GT(this=long, expression=exp.Literal.number(8 * most))
    return exp.Case().when(test, short, copy=False).else_(tree.copy(), copy=False)


def pattern_looks(pattern: str, length: int) -> int:
    """How many characters LIKE looks at in a text of this length: behind a % all of the pattern, wherever it may begin.

    Both engines look for what stands between two % from where they found the one before, and never go back.

    >>> pattern_looks("%fig%oil", 1000), pattern_looks("fig%", 1000)
    (9000, 5)
    """
    return (len(pattern) + 1) * (length if "%" in pattern.rstrip("%") else 1)


def require_bounded(work: int, copies: int = 1) -> None:
    """Refuse a statement in which one row can take too long."""
    if work * copies <= MOST_WORK:
        return
    raise Refused(
        "the statement can take too much work for one row of a person",
        detail="How long it takes would show whether that row is there.",
        hint="use shorter texts and simpler patterns, fewer text functions, or join fewer rows of public tables; "
        "'max_length' in the policy shortens the texts of a column",
        sqlstate="54001",
    )
