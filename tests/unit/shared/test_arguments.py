"""Typed jobs: what `handle` says of its arguments is what travels, and what comes out at the worker."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType
from zoneinfo import ZoneInfo

import pytest

from shared.arguments import parameters_of
from shared.codec import encode
from shared.errors import ConfigurationError, PayloadError, RefusedPayloadError
from shared.job import Job, call_of, job_of_function
from shared.payload import pack_call, unpack_call
from shared.shapes import Place, as_plain

if TYPE_CHECKING:
    from nowhere import Stranger  # type: ignore[import-not-found]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Corner(enum.Enum):
    """Its values are no plain text or number: it goes by name."""

    NEAR = (0, 0)
    FAR = (9, 9)


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@dataclass(frozen=True)
class Line:
    article: str
    price: Decimal
    count: int = 1
    colour: Colour | None = None


@dataclass(frozen=True, kw_only=True)
class Order:
    number: int
    lines: list[Line]
    due: date
    at: datetime
    notes: tuple[str, ...] = ()
    size: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", len(self.lines))


@dataclass(frozen=True)
class Node:
    name: str
    children: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Card:
    number: str


@dataclass(frozen=True)
class Cash:
    pass


Cents = NewType("Cents", int)
AT = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Paris"), fold=1)


def order(number: int = 7, price: Any = Decimal("9.99")) -> Order:
    lines = [Line("pen", price), Line("ink", Decimal(3), 2, Colour.BLUE)]
    return Order(number=number, lines=lines, due=date(2026, 1, 2), at=AT, notes=("a", "b"))


def travelled(function: Any, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as a worker gets them."""
    job = job_of_function(function)
    call = unpack_call(pack_call(call_of(job, args, kwargs)))
    return parameters_of(job).rebuild(call.args, call.kwargs)


def one(value: Order) -> None: ...
def many(value: list[Order]) -> None: ...
def by_name(value: dict[str, Order]) -> None: ...
def maybe(value: Order | None) -> None: ...
def row(value: tuple[Order, ...]) -> None: ...
def pair(value: tuple[Colour, Order]) -> None: ...
def sequence(value: Sequence[Order]) -> None: ...
def mapping(value: Mapping[Colour, Size]) -> None: ...
def some(value: set[Line]) -> None: ...
def frozen(value: frozenset[Colour]) -> None: ...
def tree(value: Node) -> None: ...
def paid(value: Card | Cash | Colour | str | None) -> None: ...
def annotated(value: Annotated[Colour, "any"]) -> None: ...
def literal(value: Literal[Colour.RED, "none"]) -> None: ...
def corner(value: Corner) -> None: ...
def rights(value: Rights) -> None: ...
def size(value: Size) -> None: ...
def amount(value: Cents) -> None: ...
def anything(value: Any) -> None: ...
def untyped(value) -> None: ...  # type: ignore[no-untyped-def]


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (one, order()),
        (many, [order(1), order(2)]),
        (many, []),
        (by_name, {"a": order()}),
        (maybe, order()),
        (maybe, None),
        (row, (order(1), order(2))),
        (pair, (Colour.RED, order())),
        (sequence, [order()]),
        (sequence, (order(),)),
        (mapping, {Colour.RED: Size.SMALL}),
        (some, {Line("a", Decimal(1)), Line("b", Decimal("2.5"), 3, Colour.RED)}),
        (frozen, frozenset({Colour.RED, Colour.BLUE})),
        (tree, Node("a", (Node("b", (Node("c"),)), Node("d")))),
        (paid, Card("12")),
        (paid, Cash()),
        (paid, Colour.RED),
        (paid, "red"),
        (paid, None),
        (annotated, Colour.BLUE),
        (literal, Colour.RED),
        (literal, "none"),
        (corner, Corner.FAR),
        (rights, Rights.READ | Rights.WRITE),
        (size, Size.LARGE),
        (amount, Cents(5)),
        (anything, (1, {"a": uuid.UUID(int=1)}, timedelta(days=1))),
        (untyped, AT),
    ],
)
def test_pay_decimal_uuid_set_tuple_annotated_arguments_come_out_equal_and_of_the_same_type(
    function: Any, value: Any
) -> None:
    ((found,), named) = travelled(function, value)
    assert (type(found), found, named) == (type(value), value, {})
    assert travelled(function, value=value)[1] == {"value": value}


def test_a_zone_inside_a_dataclass_is_kept() -> None:
    ((found,), _) = travelled(one, order())
    assert (found.at.tzinfo, found.at.fold, found.size) == (ZoneInfo("Europe/Paris"), 1, 2)


def test_a_payload_holds_plain_data_and_names_no_class() -> None:
    call = call_of(job_of_function(pair), [(Colour.RED, order())])
    colour, plain = call.args[0]
    assert (colour, plain["lines"][0]) == (
        "red",
        {"article": "pen", "price": Decimal("9.99"), "count": 1, "colour": None},
    )
    assert __name__.encode() not in pack_call(call).replace(call.job.encode(), b"")
    assert b"Order" not in pack_call(call)
    assert b"Line" not in pack_call(call)


def test_sets_of_dataclasses_travel_in_the_order_of_their_bytes() -> None:
    """The order of a set differs from process to process, and one argument's bytes must not."""
    lines = {Line(str(n), Decimal(n)) for n in range(20)}
    call = call_of(job_of_function(some), [lines])
    assert call.args[0] == sorted(call.args[0], key=encode)
    assert as_plain(lines, Place("result")) == call.args[0]


def varied(first: Order, *others: Line, flag: Colour = Colour.RED, **more: Card) -> None: ...
def named(value: Order, /, *, flag: Colour, **more: Card) -> None: ...


def test_every_kind_of_parameter_is_typed() -> None:
    line = Line("a", Decimal(1))
    args, kwargs = travelled(varied, order(), line, line, flag=Colour.BLUE, more=Card("1"), others=Card("2"))
    assert args == (order(), line, line)
    assert kwargs == {"flag": Colour.BLUE, "more": Card("1"), "others": Card("2")}
    assert travelled(named, order(), flag=Colour.RED, value=Card("3"))[1] == {"flag": Colour.RED, "value": Card("3")}


def test_one_that_has_to_be_named_is_missed() -> None:
    with pytest.raises(PayloadError, match="'flag'"):
        call_of(job_of_function(named), [order()])


@pytest.mark.parametrize(
    ("function", "args", "path", "told"),
    [
        (one, [order(price=object())], "args.value.lines[0].price", "expected Decimal, got a object"),
        (one, [order(price="9.99")], "args.value.lines[0].price", "expected Decimal, got a str"),
        (many, [[order(), order(price=1.5)]], "args.value[1].lines[0].price", "expected Decimal, got a float"),
        (by_name, [{"x": order(number="7")}], "args.value.x.number", "expected int, got a str"),  # type: ignore[arg-type]
        (one, [{"number": 7}], "args.value", "expected Order, got a dict"),
        (many, [(order(),)], "args.value", "expected list, got a tuple"),
        (pair, [(Colour.RED,)], "args.value", "expected a tuple of 2"),
        (pair, [("red", order())], "args.value[0]", "expected Colour, got a str"),
        (size, [1], "args.value", "expected Size, got a int"),
        (maybe, [Card("1")], "args.value", "expected Order or None, got a Card"),
        (paid, [1], "args.value", "expected Card or Cash or Colour or str or None, got a int"),
        (varied, [order(), Line("a", Decimal(1)), Cash()], "args.others[1]", "expected Line, got a Cash"),
        (untyped, [order()], "args.value", "a Order can't travel. Annotate it in handle()"),
        (anything, [[Colour.RED]], "args.value[0]", "a Colour can't travel. Annotate it in handle()"),
    ],
)
def test_what_is_of_another_type_is_refused_where_it_is_sent_with_its_path(
    function: Any, args: list[Any], path: str, told: str
) -> None:
    with pytest.raises(PayloadError) as caught:
        call_of(job_of_function(function), args)
    assert caught.value.path == path
    assert told in str(caught.value)


def test_a_keyword_is_told_by_its_name() -> None:
    with pytest.raises(PayloadError) as caught:
        call_of(job_of_function(one), kwargs={"value": order(price=2.5)})
    assert caught.value.path == "kwargs.value.lines[0].price"


@pytest.mark.parametrize(
    ("args", "kwargs", "told"),
    [
        ((), {}, "missing a required argument: 'first'"),
        ((order(),), {"flga": 1, "flag": 2}, "expected Card, got a int"),
        ((), {"first": order(), "flag": "red"}, "expected Colour, got a str"),
    ],
)
def test_a_wrong_argument_is_told_by_name(args: tuple[Any, ...], kwargs: dict[str, Any], told: str) -> None:
    with pytest.raises(PayloadError, match=told):
        call_of(job_of_function(varied), args, kwargs)


def test_a_ring_of_values_is_refused() -> None:
    children: list[Any] = []
    node = Node("a", children)  # type: ignore[arg-type]

    @dataclass
    class Ring:
        inner: Any = None

    def plainly(value: list[Any]) -> None: ...

    children.append(node)
    with pytest.raises(PayloadError, match="expected tuple, got a list"):
        call_of(job_of_function(tree), [node])
    ring = Ring()
    ring.inner = ring
    with pytest.raises(PayloadError, match="nested deeper than 64"):
        as_plain(ring, Place("result"))


def test_what_stands_for_more_than_fits_anywhere_is_refused() -> None:
    node = Node("leaf")
    for _ in range(25):
        node = Node("twice", (node, node))
    with pytest.raises(PayloadError, match="more than 100,000 items"):
        call_of(job_of_function(tree), [node])


# At the worker: bytes that a sender of ours would not have written.


@pytest.mark.parametrize(
    ("function", "data", "told"),
    [
        (one, 7, "args.value: expected the fields of Order"),
        (one, {"number": 7, "surprise": 1}, "Order has no field 'surprise'"),
        (one, {"number": 7}, "args.value: Order: .*missing 3 required"),
        (many, {"a": 1}, "args.value: expected list"),
        (by_name, {"a": {"lines": [{"price": "1"}]}}, r"args\.value\.a\.lines\[0\]\.price: expected Decimal"),
        (frozen, ["red", "green"], r"args\.value\[…\]: expected a member of Colour, got 'green'"),
        (corner, "ELSEWHERE", "expected a member of Corner"),
        (corner, {}, "expected a member of Corner"),
        (size, "1", "expected a member of Size"),
        (paid, {"os": {}}, "expected Card or Cash or Colour or str or None"),
        (paid, {"Card": 1}, "expected the fields of Card"),
        (literal, {"Colour": "x"}, "expected a member of Colour"),
        (pair, ("red",), "expected a tuple of 2"),
    ],
)
def test_data_that_is_no_such_value_is_refused_at_the_worker(function: Any, data: Any, told: str) -> None:
    with pytest.raises(RefusedPayloadError, match=told):
        parameters_of(job_of_function(function)).rebuild([data], {})


def test_a_field_that_was_added_with_a_default_may_be_missing_in_older_payloads() -> None:
    def earlier(value: Line) -> None: ...

    assert parameters_of(job_of_function(earlier, "earlier")).rebuild([{"article": "a", "price": Decimal(1)}], {}) == (
        (Line("a", Decimal(1)),),
        {},
    )


# Annotations that say too little, or too much.


def stranger(value: Stranger, other: Colour) -> None: ...


def test_a_name_for_type_checkers_alone_spoils_no_other_annotation() -> None:
    assert travelled(stranger, 1, Colour.RED)[0] == (1, Colour.RED)
    with pytest.raises(PayloadError, match=r"args\.value: a Order can't travel"):
        travelled(stranger, order(), Colour.RED)


@dataclass
class Needy:
    seed: InitVar[int]
    grown: int = 0


def needy(value: Needy) -> None: ...
def vague(value: Card | dict[str, int]) -> None: ...
def vaguer(value: list[Card] | list[Cash]) -> None: ...
def vaguest(value: Card | Any | list[Cash]) -> None: ...
def list_or_set(value: list[str] | set[Colour]) -> None: ...
def set_or_list(value: set[Size] | list[int]) -> None: ...
def plain_list(value: list[int] | list[Card]) -> None: ...
def plain_pair(value: tuple[Card, int] | tuple[int, int]) -> None: ...
def plain_map(value: dict[str, int] | dict[str, Card]) -> None: ...


@pytest.mark.parametrize(
    ("function", "value", "told"),
    [
        (needy, Needy(1), "made with 'seed', which is none of its fields"),
        (vague, {"a": 1}, "could not tell which it was"),
        (vaguer, [Card("1")], "could not tell which it was"),
        (vaguest, 1, "could not tell which it was"),
        (list_or_set, {Colour.RED}, "could not tell which it was"),
        (set_or_list, [1, 2], "could not tell which it was"),
        (plain_list, [Card("1")], "could not tell which it was"),
        (plain_pair, (1, 2), "could not tell which it was"),
        (plain_map, {"a": Card("1")}, "could not tell which it was"),
    ],
)
def test_annotations_whose_values_could_not_be_rebuilt_are_refused(function: Any, value: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        call_of(job_of_function(function), [value])


def list_or_bag(value: list[Card] | set[str] | tuple[int, int] | None) -> None: ...
def called(value: int, then: Callable[[int], None] | None = None) -> None: ...


@pytest.mark.parametrize("value", [[Card("1")], {"a"}, (1, 2), None])
def test_containers_of_other_types_may_stand_beside_one_of_dataclasses(value: Any) -> None:
    assert travelled(list_or_bag, value)[0] == (value,)


def test_an_annotation_with_arguments_that_are_no_types_says_nothing() -> None:
    assert travelled(called, 1, None)[0] == (1, None)


class Base(Job):
    name = "arguments-base"

    def handle(self, value: Order) -> None: ...


class Derived(Base):
    name = "arguments-derived"


def test_a_handle_is_typed_by_the_class_that_wrote_it() -> None:
    call = call_of(Derived, [order()])
    assert parameters_of(Derived).rebuild(call.args, call.kwargs) == ((order(),), {})


def by_card(value: dict[Card, int]) -> None: ...


def test_a_dataclass_can_be_no_key() -> None:
    with pytest.raises(PayloadError, match=r"args\.value: a Card can't be a key"):
        call_of(job_of_function(by_card), [{Card("1"): 1}])
    with pytest.raises(PayloadError, match=r"result\.cards: a Card can't be a key"):
        as_plain({"cards": {Card("1"): 1}}, Place("result"))


def test_a_result_may_nest_dataclasses_in_sets() -> None:
    plain = {"number": "1"}
    assert as_plain({(Card("1"), 2)}, Place("result")) == [(plain, 2)]
    assert as_plain(frozenset({frozenset({Card("1")})}), Place("result")) == [[plain]]


def test_a_result_is_plain_data() -> None:
    plain = as_plain(
        {"order": order(), Colour.RED: [Size.LARGE, (Corner.FAR, {Line("a", Decimal(1))})]}, Place("result")
    )
    assert plain["red"] == [2, ("FAR", [{"article": "a", "price": Decimal(1), "count": 1, "colour": None}])]
    assert plain["order"]["at"] == AT
    assert as_plain({Colour.RED, Colour.BLUE}, Place("result")) == {"red", "blue"}
    assert as_plain(datetime(2026, 1, 1, tzinfo=UTC), Place("result")) == datetime(2026, 1, 1, tzinfo=UTC)
