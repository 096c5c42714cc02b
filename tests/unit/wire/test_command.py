from __future__ import annotations

import contextlib
import json
import struct

import pytest
from hypothesis import given, strategies as st

from rocketmq_py.errors import CorruptFrame
from rocketmq_py.wire import command as module
from rocketmq_py.wire.command import LANGUAGES, Command, decode_command, decode_ext, encode_command
from rocketmq_py.wire.frame import JSON, ROCKETMQ, Frame, FrameDecoder
from tests.golden import files

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
I32 = st.integers(-(2**31), 2**31 - 1)
COMMANDS = st.builds(
    Command, code=st.integers(0, 32767), opaque=I32, flag=st.sampled_from([0, 1, 2, 3]), remark=st.none() | TEXT,
    ext=st.dictionaries(TEXT, TEXT, max_size=5), body=st.binary(max_size=40), language=st.sampled_from(LANGUAGES),
    version=st.integers(0, 600),
)  # fmt: skip


def one(data: bytes) -> Command:
    [frame] = FrameDecoder().feed(data)
    return decode_command(frame)


@given(COMMANDS, st.sampled_from([JSON, ROCKETMQ]))
def test_encoding_and_decoding_are_inverse(command: Command, serialize_type: int) -> None:
    assert one(encode_command(command, serialize_type)) == command


@pytest.mark.parametrize(("name", "serialize_type"), [("JSON", JSON), ("ROCKETMQ", ROCKETMQ)])
def test_json_and_binary_headers_of_java_are_equal(name: str, serialize_type: int) -> None:
    data = files.unbase64(files.fact("frame", serialize=name)["frame"])
    command = one(data)
    assert (command.code, command.opaque, command.language, command.version) == (11, 77, "PYTHON", 479)
    assert (command.remark, command.body) == ("wörd", b"body")
    assert command.ext["topic"] == "t-é"
    assert command.ext["queueOffset"] == str(1 << 40)
    assert encode_command(command, serialize_type) == data


@pytest.mark.parametrize("name", files.REQUESTS)
def test_java_requests_are_decoded(name: str) -> None:
    header, body = files.header_and_body(files.request(name))
    command = one(files.request(name))
    if header.startswith(b"{"):
        raw = json.loads(header)
        assert (command.code, command.opaque, command.version) == (raw["code"], raw["opaque"], raw["version"])
        assert command.ext == raw["extFields"]
    assert command.body == body
    assert command.language == "JAVA"
    assert not command.is_response


@pytest.mark.parametrize("name", files.RESPONSES)
def test_java_responses_are_decoded(name: str) -> None:
    header, body = files.header_and_body(files.response(name))
    raw = json.loads(header)
    command = one(files.response(name))
    assert (command.code, command.remark) == (raw["code"], raw.get("remark"))
    assert (command.ext, command.body) == (raw.get("extFields", {}), body)
    assert command.is_response


def test_requests_of_a_java_producer_with_binary_headers_are_decoded() -> None:
    command = one(files.request("send_rocketmq"))
    assert files.request("send_rocketmq")[4] == ROCKETMQ
    assert (command.code, command.ext["a"], command.ext["b"]) == (310, "peer-producer", "golden")
    assert command.ext["i"].startswith("UNIQ_KEY\x01")
    assert encode_command(command, ROCKETMQ) == files.request("send_rocketmq")


def test_an_unknown_serialize_type_is_named() -> None:
    with pytest.raises(CorruptFrame, match="unknown serialize type 9"):
        decode_command(Frame(9, b"{}", b""))


@pytest.mark.parametrize("header", [
    b"", b"{", b"[]", b"null", b"{}", b'{"code":"x"}', b'{"code":1,"extFields":[1]}', b"\xff\xfe",
    b'{"code":1,"x":' + b"[" * 5000,
])  # fmt: skip
def test_a_malformed_json_header_is_a_corrupt_frame(header: bytes) -> None:
    with pytest.raises(CorruptFrame):
        decode_command(Frame(JSON, header, b""))


@given(st.binary(max_size=60))
def test_a_binary_header_of_random_bytes_decodes_or_is_a_corrupt_frame(header: bytes) -> None:
    try:
        decode_command(Frame(ROCKETMQ, header, b""))
    except CorruptFrame:
        return


@pytest.mark.parametrize("remark_length", [-1, 2**31 - 1, 1])
def test_a_binary_header_with_wrong_lengths_is_a_corrupt_frame(remark_length: int) -> None:
    header = struct.pack(">hbhiii", 10, 0, 479, 1, 0, remark_length)
    with pytest.raises(CorruptFrame):
        decode_command(Frame(ROCKETMQ, header, b""))


@pytest.mark.parametrize(("text", "ext"), [
    (b'{"code":1,"extFields":{"a":1,"b":true,"c":null,"d":"x"},"flag":0}', {"a": "1", "b": "true", "d": "x"}),
    (b"{code:1,extFields:{queueId:3}}", {"queueId": "3"}),
    (b'{"code":1}', {}),
    (b'{"code":1,"extFields":null,"unknown":{"x":[1]}}', {}),
])  # fmt: skip
def test_a_header_in_the_dialect_of_fastjson_is_decoded(text: bytes, ext: dict[str, str]) -> None:
    command = decode_command(Frame(JSON, text, b""))
    assert (command.code, command.ext) == (1, ext)


@pytest.mark.parametrize(("language", "name"), [
    ('"GO"', "GO"), ("9", "GO"), ('"9"', "GO"), ('"KLINGON"', "OTHER"), ("99", "OTHER"),
    ("null", "OTHER"), ("-1", "OTHER"),
])  # fmt: skip
def test_languages_are_decoded_by_name_and_ordinal(language: str, name: str) -> None:
    text = f'{{"code":1,"language":{language}}}'.encode()
    assert decode_command(Frame(JSON, text, b"")).language == name


def test_absent_language_is_java_and_flags_are_read() -> None:
    command = decode_command(Frame(JSON, b'{"code":1,"flag":3}', b""))
    assert command.language == "JAVA"
    assert command.is_response
    assert command.is_oneway


def test_a_command_is_a_request_of_this_version_in_json() -> None:
    end = b'"serializeTypeCurrentRPC":"JSON","version":513}'
    text = b'{"code":10,"extFields":{},"flag":0,"language":"PYTHON","opaque":0,' + end
    assert encode_command(Command(10)) == struct.pack(">II", 4 + len(text), len(text)) + text
    answer = Command(1, 5, 1, "no", {"a": "b"}, b"body", "JAVA", 479)
    text = (
        b'{"code":1,"extFields":{"a":"b"},"flag":1,"language":"JAVA","opaque":5,"remark":"no",'
        b'"serializeTypeCurrentRPC":"JSON","version":479}'
    )
    assert encode_command(answer) == struct.pack(">II", 8 + len(text), len(text)) + text + b"body"


def test_members_that_a_header_lacks_are_those_of_an_old_java_client() -> None:
    for text in (b'{"code":1}', b"{code:1}", b'{"code":"1","extFields":{}}', b'{code:"1"}', b'{"code":"1","x":"\xff"}'):
        assert decode_command(Frame(JSON, text, b"b")) == Command(1, 0, 0, None, {}, b"b", "JAVA", 0)


@pytest.mark.parametrize(
    ("flag", "is_response", "is_oneway"), [(0, False, False), (1, True, False), (2, False, True), (3, True, True)]
)
def test_the_flag_has_two_bits(flag: int, is_response: bool, is_oneway: bool) -> None:
    command = Command(1, flag=flag | 4)
    assert (command.is_response, command.is_oneway) == (is_response, is_oneway)
    assert (module.RESPONSE_FLAG, module.ONEWAY_FLAG) == (1, 2)


def test_numbers_and_flags_may_be_strings_in_every_form_of_a_header() -> None:
    members = '"code":"11","opaque":"5","flag":"1","version":"7"'
    for text in (f"{{{members}}}", f'{{{members},"extFields":{{"a":1}}}}', f"{{{members},extFields:{{a:1}}}}"):
        command = decode_command(Frame(JSON, text.encode(), b""))
        assert (command.code, command.opaque, command.flag, command.version) == (11, 5, 1, 7)


def test_field_values_of_the_dialect_become_strings() -> None:
    text = b"{code:1,extFields:{a:true,b:false,c:null,d:'x',e:1.5,f:{g:[1]}}}"
    ext = {"a": "true", "b": "false", "d": "x", "e": "1.5", "f": '{"g":[1]}'}
    assert decode_command(Frame(JSON, text, b"")).ext == ext
    assert decode_command(Frame(JSON, b"{code:1,extFields:null,opaque:3}", b"")) == Command(
        1, 3, language="JAVA", version=0
    )


@pytest.mark.parametrize("more", [0, 1])
def test_a_header_in_the_dialect_has_at_most_64_kibibytes(more: int) -> None:
    head = b"{code:1,x:'"
    text = head + b"x" * (65_536 - len(head) - 2 + more) + b"'}"
    if more:
        with pytest.raises(CorruptFrame, match="a JSON header of 65537 bytes is not strict JSON"):
            decode_command(Frame(JSON, text, b""))
    else:
        assert decode_command(Frame(JSON, text, b"")).code == 1


def test_a_long_header_with_odd_values_is_decoded() -> None:
    text = b'{"code":"1","extFields":{"a":1,"b":"' + b"x" * 70_000 + b'"}}'
    command = decode_command(Frame(JSON, text, b""))
    assert (command.code, command.ext["a"], len(command.ext["b"])) == (1, "1", 70_000)


def test_fields_alone_are_decoded_like_those_of_a_header() -> None:
    cases: list[tuple[bytes, dict[str, str]]] = [
        (b"null", {}), (b"{}", {}), (b'{"a":"x","b":1,"c":null,"d":true}', {"a": "x", "b": "1", "d": "true"}),
        (b'{"a":{"c":2,"b": [1]}}', {"a": '{"b":[1],"c":2}'}), (b'{"a":"\xff"}', {"a": "\ufffd"}),
    ]  # fmt: skip
    assert [decode_ext(text) for text, _ in cases] == [ext for _, ext in cases]
    for wrong in (b'{"a":' + b"[" * 5000, b"[", b"[]"):
        with pytest.raises(ValueError, match=r"."):
            decode_ext(wrong)


# -- the binary form, byte by byte

BINARY = (
    b"\x01\x36" b"\x03" b"\x02\x01" b"\x00\x00\x00\x05" b"\x00\x00\x00\x01" b"\x00\x00\x00\x02no"
    b"\x00\x00\x00\x08" b"\x00\x01a" b"\x00\x00\x00\x01b"
)  # fmt: skip


def test_a_binary_header_is_written_and_read_byte_by_byte() -> None:
    command = Command(310, 5, 1, "no", {"a": "b"}, b"body")
    frame = struct.pack(">II", 4 + len(BINARY) + 4, 1 << 24 | len(BINARY)) + BINARY + b"body"
    assert encode_command(command, ROCKETMQ) == frame
    assert decode_command(Frame(ROCKETMQ, BINARY, b"body")) == command
    assert decode_command(Frame(ROCKETMQ, BINARY[:2] + b"\x63" + BINARY[3:], b"")).language == "OTHER"


@pytest.mark.parametrize(("code", "cut"), [(32_767, 32_767), (32_768, -32_768), (65_535, -1), (65_536, 0), (-1, -1)])
def test_codes_are_cut_to_sixteen_bits(code: int, cut: int) -> None:
    assert one(encode_command(Command(code), ROCKETMQ)).code == cut


def test_empty_names_and_values_and_an_empty_remark_are_left_out_of_a_binary_header() -> None:
    entries = b"\0\0" b"\0\0\0\1x" b"\0\1n" b"\0\0\0\0" b"\0\1m" b"\0\0\0\1v"  # fmt: skip
    header = struct.pack(">hbhiiii", 10, 0, 479, 1, 0, 0, len(entries)) + entries
    command = decode_command(Frame(ROCKETMQ, header, b""))
    assert (command.remark, command.ext, command.language) == (None, {"m": "v"}, "JAVA")


def binary(remark: int = 2, entries: int = 8, name: int = 1, value: int = 1, more: bytes = b"") -> bytes:
    head = struct.pack(">hbhiii", 10, 0, 479, 1, 0, remark) + b"no"
    return head + struct.pack(">ih", entries, name) + b"a" + struct.pack(">i", value) + b"b" + more


def test_lengths_of_a_binary_header_must_agree() -> None:
    assert decode_command(Frame(ROCKETMQ, binary(), b"")).ext == {"a": "b"}
    wrong = [
        binary(remark=-1), binary(remark=50), binary(entries=-1), binary(entries=9), binary(entries=1, more=b"x"),
        binary(name=-1), binary(name=90), binary(value=-1), binary(value=2), binary(entries=7)[:-2],
    ]  # fmt: skip
    accepted = []
    for number, header in enumerate(wrong):
        with contextlib.suppress(CorruptFrame):
            accepted.append((number, decode_command(Frame(ROCKETMQ, header, b""))))
    assert accepted == [(4, Command(10, 1, 0, "no", {"a": "b"}, language="JAVA", version=479))]
    with pytest.raises(CorruptFrame, match="header fields of 9 bytes do not fit into a header of 31 bytes"):
        decode_command(Frame(ROCKETMQ, wrong[3], b""))
    with pytest.raises(CorruptFrame, match="a field of 2 bytes does not fit into a header of 31 bytes"):
        decode_command(Frame(ROCKETMQ, wrong[8], b""))


def test_a_pop_code_does_not_fit_into_a_binary_header() -> None:
    assert one(encode_command(Command(200050), ROCKETMQ)).code == 3442


@pytest.mark.parametrize(("text", "ext"), [
    (b'{"code":1,"extFields":{"a":"\xff"}}', {"a": "\ufffd"}),
    (b'{"code":1,"extFields":{"a":"\xff","b":' + b"[" * 70 + b"]" * 70 + b"}}",
     {"a": "\ufffd", "b": "[" * 70 + "]" * 70}),
    (b'{"code":1,"extFields":{"a":{"c":2,"b":[1, null]}}}', {"a": '{"b":[1,null],"c":2}'}),
    (b'{"code":1,"extFields":{"a":{"b": 1e999}}}', {"a": '{"b": 1e999}'}),
    (b'{"code":1,"extFields":{"a":1e2,"b":1.0,"c":9007199254740993.0}}',
     {"a": "1e2", "b": "1.0", "c": "9007199254740993.0"}),
    (b'{"code":1,"extFields":{"a":"1","a":2}}', {"a": "2"}),
    (b'{"code":1,"extFields":{"a":"1","a":null}}', {}),
    (b'{"code":1,"extFields":{"a":"1"},"extFields":{"b":true}}', {"b": "true"}),
])  # fmt: skip
def test_field_values_of_other_types_become_strings(text: bytes, ext: dict[str, str]) -> None:
    command = decode_command(Frame(JSON, text, b""))
    assert (command.code, command.ext) == (1, ext)


@pytest.mark.parametrize("language", ['"\u00b2"', '"' + "9" * 5000 + '"', "99999999999999999999", '"0009"'])
def test_an_unknown_ordinal_is_an_unknown_language(language: str) -> None:
    text = f'{{"code":1,"language":{language}}}'.encode()
    assert decode_command(Frame(JSON, text, b"")).language == "OTHER"


def test_a_long_header_in_the_dialect_of_fastjson_is_refused_at_once() -> None:
    """Its reader takes it character by character: 16 MiB of it would hold a server for seconds."""
    with pytest.raises(CorruptFrame, match="is not strict JSON"):
        decode_command(Frame(JSON, b"{code:1,x:[" + b"1," * 40_000 + b"]}", b""))
