from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.errors import BadHeader
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.fastjson import BareKey
from tests.golden import files

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT
TREES = st.recursive(
    LEAVES, lambda kids: st.lists(kids, max_size=3) | st.dictionaries(TEXT, kids, max_size=3), max_leaves=12
)
QUEUE = '{"brokerName":"b","queueId":1,"topic":"t"}'


@given(TREES)
def test_strict_json_is_encoded_and_decoded(tree: object) -> None:
    assert fastjson.loads(fastjson.dumps(tree)) == tree == json.loads(fastjson.dumps(tree))


@given(TREES)
def test_the_dialect_reader_reads_strict_json_too(tree: object) -> None:
    assert fastjson._Reader(json.dumps(tree)).document() == tree
    assert fastjson._Reader(json.dumps(tree, ensure_ascii=False, indent=1)).document() == tree


@pytest.mark.parametrize(("text", "value"), [
    ('{0:"a",12:"b"}', {"0": "a", "12": "b"}),
    ("{name:1}", {"name": 1}),
    ("{'single':'it\\'s \"x\"'}", {"single": 'it\'s "x"'}),
    (f"{{{QUEUE}:5}}", {QUEUE: 5}),
    ('{{"topic":"t","queueId":1,"brokerName":"b"}:5}', {QUEUE: 5}),
    ('{"a":[1,2,],}', {"a": [1, 2]}),
    (" { 0 : [ true , null , -1.5 ] } ", {"0": [True, None, -1.5]}),
    ('{1:"\t raw tab"}', {"1": "\t raw tab"}),
    ('{1:"\\u00e9 \\" \\\\"}', {"1": 'é " \\'}),
    ('/* a */ {"a"/*b*/:1 // c\n,"b":/**/2}//', {"a": 1, "b": 2}), ("['\\x41\\\\x41']", ["A\\x41"]),
    ("{}", {}), ("[]", []), ("3", 3),
])  # fmt: skip
def test_the_dialect_of_fastjson_is_decoded(text: str, value: object) -> None:
    assert fastjson.loads(text) == value
    assert fastjson.loads(text.encode()) == value


@pytest.mark.parametrize("text", [
    "", "{", "}", "[", "{0:}", "{0 1}", '{0:"a"', '{0:"a}', "{0:1}x", '{0:"\\x"}', "[1 2]", "{:1}", '{0:"\\ud800"}',
    "[" * 5000, "{0:" * 5000, b"\xff\xfe{0:1}", "{'a:1}", "/*{}", "[1/*]", "/", "{'a':'\\x4'}",
])  # fmt: skip
def test_invalid_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        fastjson.loads(text)


def test_unterminated_comments_take_linear_time() -> None:
    begun = time.process_time()
    for text in ("/*,".join("0" * 50_000), "[" + "/*," * 50_000, "{" + "a/*:" * 50_000):
        with pytest.raises(ValueError, match="not JSON"):
            fastjson.loads(text)
    assert time.process_time() - begun < 1


@given(st.text("{}[]:,\"\\'01ax \n", max_size=30))
def test_random_text_decodes_or_is_a_value_error(text: str) -> None:
    try:
        fastjson.loads(text)
    except ValueError:
        return


@pytest.mark.parametrize("name", files.RESPONSES)
def test_every_json_body_of_java_is_decoded(name: str) -> None:
    _, body = files.header_and_body(files.response(name))
    if body[:1] == b"{":
        assert isinstance(fastjson.loads(body), dict)


@pytest.mark.parametrize("fact", files.facts("body"), ids=lambda fact: fact["name"])
def test_object_keys_of_java_bodies_are_decoded(fact: dict[str, str]) -> None:
    tree = fastjson.loads(fact["json"])
    key = fastjson.object_key({"brokerName": "broker-a", "queueId": 1, "topic": "t"})
    tables = [value for name, value in tree.items() if name in ("offsetTable", "mqTable")]
    assert all(key in table for table in tables)


def test_java_bodies_are_written_as_java_writes_them() -> None:
    queue = (("brokerName", "broker-a"), ("queueId", 1), ("topic", "t"))
    stats = {
        "offsetTable": {queue: {"lastUpdateTimestamp": 1700000000000, "maxOffset": 20, "minOffset": 1}},
        "topicPutTps": 0.0,
    }
    assert fastjson.dumps_java(stats).decode() == files.fact("body", name="TopicStatsTable")["json"]
    assert fastjson.dumps_java({"brokerAddrs": {BareKey(0): "h:1"}, "zoneName": None}) == b'{"brokerAddrs":{0:"h:1"}}'


def bare(tree: object) -> object:
    """Turns the string keys a reader makes of bare numbers back."""
    if isinstance(tree, dict):
        return {BareKey(k) if k.isdigit() else k: bare(v) for k, v in tree.items()}
    return [bare(v) for v in tree] if isinstance(tree, list) else tree


@pytest.mark.parametrize("name", ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"])
def test_config_files_are_written_in_javas_bytes(name: str) -> None:
    data = (files.STORE / "config" / name).read_bytes()
    assert fastjson.dumps_pretty(bare(fastjson.loads(data))) == data


@given(TREES)
def test_pretty_format_does_not_depend_on_how_it_is_made(tree: object) -> None:
    assert fastjson.dumps_pretty(tree).decode() == fastjson.pretty(tree, 0)


@given(TREES)
def test_text_encoded_for_java_decodes_to_the_same_value(tree: object) -> None:
    def without_null_members(value: object) -> object:
        if isinstance(value, dict):
            return {k: without_null_members(v) for k, v in value.items() if v is not None}
        return [without_null_members(v) for v in value] if isinstance(value, list) else value

    assert fastjson.loads(fastjson.dumps_java(tree)) == without_null_members(tree)
    assert fastjson.loads(fastjson.dumps_pretty(tree)) == without_null_members(tree)


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ({"a": 1, "b": "x"}, '{\n\t"a":1,\n\t"b":"x"\n}'),
        ({"a,": ",", "b": 'x,"y'}, '{\n\t"a,":",",\n\t"b":"x,\\"y"\n}'),
        ({"a": {}, "b": [], "c": True}, '{\n\t"a":{},\n\t"b":[],\n\t"c":true\n}'),
        ({"a": {"b": 1}, "c": 2}, '{\n\t"a":{\n\t\t"b":1\n\t},\n\t"c":2\n}'),
        ({"a": [1], "b": None}, '{\n\t"a":[\n\t\t1\n\t]\n}'),
        ({"z": 1.5, "a": None, BareKey(3): "é"}, '{\n\t"z":1.5,\n\t3:"é"\n}'),
        ({"a": ": x", "b": '": x', ": ": 1}, '{\n\t"a":": x",\n\t"b":"\\": x",\n\t": ":1\n}'),
        ({"": "x: y", "b:": [":", "a"]}, '{\n\t"":"x: y",\n\t"b:":[\n\t\t":",\n\t\t"a"\n\t]\n}'),
        ({"a  b": "\tx", "c": "  y"}, '{\n\t"a  b":"\\tx",\n\t"c":"  y"\n}'),
        ({}, "{}"),
    ],
)
def test_pretty_format_of_flat_and_nested_objects(tree: dict[object, object], text: str) -> None:
    assert fastjson.dumps_pretty(tree).decode() == text


def test_files_of_java_with_integer_keys_need_no_slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"t@g": {BareKey(0): 5, BareKey(-1): 6}, 'a\n\t1:"': {}}
    data = fastjson.dumps_pretty({"offsetTable": table})
    monkeypatch.setattr(fastjson, "_Reader", None)
    assert (
        fastjson.loads(data)
        == fastjson.loads(data.decode())
        == {"offsetTable": {"t@g": {"0": 5, "-1": 6}, 'a\n\t1:"': {}}}
    )


def test_a_line_break_in_a_string_is_left_to_the_reader_of_the_dialect() -> None:
    assert fastjson.loads(b'{\n\t0:"a\n\t1:b"}') == {"0": "a\n\t1:b"}


def offset_tree(topics: int) -> dict[str, Any]:
    return {"dataVersion": {"counter": 1}, "offsetTable": {
        f't{number}@g "[1,2:' if number % 7 == 3 else f"t{number}@g": {BareKey(queue): number for queue in (-1, 0, 10)}
        for number in range(topics)
    }}  # fmt: skip


def plain(tree: Any) -> Any:
    return {str(key): plain(value) for key, value in tree.items()} if isinstance(tree, dict) else tree


def test_compact_bare_keys_are_not_read_character_by_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """50,000 groups of a slave took a second."""
    monkeypatch.setattr(fastjson, "_Reader", None)
    tree = {"a": {BareKey(1): {BareKey(-2): [1, {BareKey(3): "x"}]}}}
    assert fastjson.loads(fastjson.dumps_java(tree)) == {"a": {"1": {"-2": [1, {"3": "x"}]}}}


def test_keys_that_are_objects_are_not_read_character_by_character(monkeypatch: pytest.MonkeyPatch) -> None:
    """The progress of 300 groups in 15,000 queues took half a second."""
    keys = [(("topic", f"t{{{number}"), ("queueId", number), ("brokerName", "b}:")) for number in range(5_000)]
    data = fastjson.dumps_java({"offsetTable": {key: {"offset": 1, "by": {BareKey(0): 2}} for key in keys}})
    wanted = {fastjson.object_key(dict(key)): {"offset": 1, "by": {"0": 2}} for key in keys}
    assert len(data) > 3 * fastjson._CHUNK
    monkeypatch.setattr(fastjson, "_Reader", None)
    assert fastjson.loads(data) == {"offsetTable": wanted}


@pytest.mark.parametrize(
    "text",
    [
        '{{"a":"x\\"y"}:1}', '{{"a":{"b":1}}:1}', '{{"a":1.5}:1}', '{{"a":1,}:1}', '{{"a":007}:1}',
        "{'{\"a\":1}:':1,2:3}",
        '{{"b":1,"a":"c,4:"}:{5:6}}', '{"x{":{"a":1}}', '{{"a":"1}:"}:2}', '{{"a":1,"a":2}:3}', '{1:{{"a":"\n"}:2}}',
    ],
)  # fmt: skip
def test_objects_as_keys_are_read_as_by_the_reader_of_the_dialect(text: str) -> None:
    assert fastjson.loads(text) == fastjson._Reader(text).document()


@pytest.mark.parametrize(
    "text", ['{"a,5:b":{1:2}}', '{"x\\",5:":{1:2}}', '{1:"{2:"}', '{1:",-3:",2:[1,2]}', "{1:'{2:3}'}"]
)
def test_keys_within_strings_stay(text: str) -> None:
    assert fastjson.loads(text) == fastjson._Reader(text).document()


def test_a_long_text_is_read_in_steps() -> None:
    tree = {name: table for name, table in offset_tree(10_000)["offsetTable"].items() if "[" not in name}
    data = fastjson.dumps_java(tree)
    steps = fastjson.load_object_in_steps(data)
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as result:
            found = result.value
            break
        count += 1
    assert found == plain(tree)
    assert count == pytest.approx(len(data) / (64 * 1024), rel=0.2)


def test_a_long_text_with_keys_in_strings_is_read() -> None:
    tree = offset_tree(2_000)
    assert fastjson.loads(fastjson.dumps_java(tree)) == plain(tree)


def test_a_long_text_without_a_place_to_split_it_is_read() -> None:
    data = b'{1:"' + b"x" * 200_000 + b'"}'
    assert fastjson.loads(data) == {"1": "x" * 200_000}


def test_standard_json_is_told_from_the_dialect() -> None:
    for text, strict in ((b"{}", True), (b"{0:1}", False), (b'"\xff"', False), (b"[" * 5000, False), (b"", False)):
        assert fastjson.is_strict(text) is strict


def test_an_object_is_read_from_bytes_and_memory() -> None:
    assert fastjson.load_object(b'{"a":1}') == {"a": 1}
    assert fastjson.load_object(memoryview(b"{0:1}")) == {"0": 1}
    with pytest.raises(
        BadHeader, match=r"a JSON object is expected, not b'\[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1'$"
    ):
        fastjson.load_object(b"[" + b"1," * 30 + b"1]")
    with pytest.raises(ValueError, match="not JSON"):
        fastjson.load_object(b"{")


class Odd:
    """Encoded by neither form."""


def test_values_are_written_compactly_and_pretty() -> None:
    nested = {
        "b": [1, (2, None), {}], BareKey(-1): {}, (("y", 1), ("x", None), ("a", ())): 5, 7: "seven", "none": None,
        "flag": True, "text": 'quo"te\n', "real": 1.5,
    }  # fmt: skip
    assert fastjson.dumps_java(nested).decode() == (
        '{"b":[1,[2,null],{}],-1:{},{"y":1,"a":[]}:5,"7":"seven","flag":true,"text":"quo\\"te\\n","real":1.5}'
    )
    assert fastjson.dumps_pretty(nested).decode() == (
        '{\n\t"b":[\n\t\t1,\n\t\t[\n\t\t\t2,\n\t\t\tnull\n\t\t],\n\t\t{}\n\t],\n\t-1:{},'
        '\n\t{\n\t\t"y":1,\n\t\t"a":[]\n\t}:5,\n\t"7":"seven",\n\t"flag":true,\n\t"text":"quo\\"te\\n",'
        '\n\t"real":1.5\n}'
    )
    assert [fastjson.dumps_java(one) for one in ([], (), {}, None, "x", b"\0\1")] == [
        b"[]", b"[]", b"{}", b"null", b'"x"', b'"AAE="',
    ]  # fmt: skip
    assert [fastjson.dumps_pretty(one) for one in ([], (), {}, None, "x", b"\0\1")] == [
        b"[]", b"[]", b"{}", b"null", b'"x"', b'"AAE="',
    ]  # fmt: skip
    for dump in (fastjson.dumps, fastjson.dumps_java, fastjson.dumps_pretty):
        with pytest.raises(TypeError):
            dump({"a": Odd()})


def test_parts_of_a_pretty_text_are_put_together() -> None:
    whole = {"table": {"x": [1, 2], "y": {}}}
    parts = {"x": fastjson.pretty([1, 2], 2), "y": fastjson.pretty({}, 2)}
    text = fastjson.pretty_object({"table": fastjson.pretty_object(parts, 1)}, 0)
    assert text.encode() == fastjson.dumps_pretty(whole)
    assert fastjson.pretty_object({}, 3) == "{}"
    array = fastjson.pretty_array((fastjson.pretty(one, 2) for one in ([1, 2], {})), 1)
    assert fastjson.pretty_object({BareKey(0): array, 7: "1"}, 0).encode() == fastjson.dumps_pretty(
        {BareKey(0): [[1, 2], {}], 7: 1}
    )
    assert fastjson.pretty_array([], 3) == "[]"


@pytest.mark.parametrize(("text", "words"), [
    ("{0:1}x", "not JSON at character 5: something follows the end, near '{0:1}x'"),
    ("{0 1}", "not JSON at character 3: ':' expected, near '{0 1}'"),
    ("[1 2]", "not JSON at character 3: ',' or ']' expected, near '[1 2]'"),
    ("{a:1 b}", "not JSON at character 5: ',' or '}' expected, near '{a:1 b}'"),
    ("[x,,1]", "not JSON at character 3: a value is missing, near '[x,,1]'"),
    ('[x,"y]', "not JSON at character 3: a string does not end, near '[x,\"y]'"),
    ("[x,/* y]", "not JSON at character 3: a comment does not end, near '[x,/* y]'"),
    (" " * 30 + "x y" + " " * 30,
     f"not JSON at character 32: something follows the end, near {(' ' * 18 + 'x y' + ' ' * 19)!r}"),
])  # fmt: skip
def test_a_fault_is_named_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="not JSON") as caught:
        fastjson.loads(text)
    assert str(caught.value) == words


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ("{a:", "}")])
def test_the_dialect_is_read_to_64_levels(opening: str, closing: str) -> None:
    fastjson.loads(opening * 64 + "x" + closing * 64)
    with pytest.raises(ValueError, match="nested too deeply"):
        fastjson.loads(opening * 65 + "x" + closing * 65)


@pytest.mark.parametrize(("text", "value"), [
    ("['it\\'s']", ["it's"]), ("['\"']", ['"']), ("[x,'\\x4a\\n']", ["x", "J\n"]),
    ("{null:1,true:2,1.5:3}", {"null": 1, "true": 2, "1.5": 3}),
    ("[01]", ["01"]), ("{[1]:2}", {"[1]": 2}), ("[a]", ["a"]), ("['\x01']", ["\x01"]), ("// a\n[a]/**/", ["a"]),
])  # fmt: skip
def test_more_of_the_dialect_is_decoded(text: str, value: object) -> None:
    assert fastjson.loads(text) == value


def test_keys_count_as_levels() -> None:
    fastjson.loads("[" * 62 + "{[a]:1}" + "]" * 62)
    with pytest.raises(ValueError, match="nested too deeply"):
        fastjson.loads("[" * 63 + "{[a]:1}" + "]" * 63)


def test_a_key_of_a_key_is_a_text() -> None:
    """Objects as keys in each other would double the text with each level: 64 levels are a few hundred bytes."""
    assert fastjson.loads("{{a:1,b:{c:[2]}}:3,{d:{5:6}}:4}") == {'{"a":1,"b":{"c":[2]}}': 3, '{"d":{"5":6}}': 4}
    for opening, closing in (("{", ":1}"), ("{[", "]:1}"), ("{[{a:{", ":1}}]:1}")):
        for levels in (2, 60):
            with pytest.raises(ValueError, match="a key of a key is an object or an array"):
                fastjson.loads(opening * levels + "{}" + closing * levels)


def test_bytes_that_are_not_text_are_replaced_in_the_dialect() -> None:
    assert fastjson.loads(b"{a:'\xff'}") == {"a": "\ufffd"}


@pytest.mark.parametrize("key", [
    '{"brokerName":"broker-a","queueId":0,"topic":"t"}', '{"brokerName":"ü","queueId":123456789,"topic":"%DLQ%g"}',
    '{"brokerName":"","queueId":7,"topic":""}', '{"brokerName":"b","queueId":-1,"topic":"t"}',
    '{"brokerName":"b","queueId":1234567890123,"topic":"t"}', '{"brokerName":"a\\"b","queueId":1,"topic":"t"}',
    '{"topic":"t","queueId":1,"brokerName":"b"}', '{"brokerName":"b","queueId":1,"topic":"t","more":1}',
])  # fmt: skip
def test_queues_as_keys_are_read_as_by_the_reader_of_the_dialect(key: str) -> None:
    text = '{"a":{' + key + ':{"0":1},{"brokerName":"z","queueId":9,"topic":"z"}:{"0":2}}}'
    assert fastjson.loads(text) == fastjson._Reader(text).document()


def test_queues_as_keys_are_quoted_without_a_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastjson, "_quoted_object", lambda found: pytest.fail("a key was parsed"))
    key = '{"brokerName":"broker-a","queueId":3,"topic":"t"}'
    assert fastjson.loads("{" + key + ":1}") == {key: 1}
