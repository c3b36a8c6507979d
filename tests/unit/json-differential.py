# SPDX-License-Identifier: Apache-2.0
"""Compares our JSON parser with Python's.

Both must accept the same texts and read the same values from them.

usage: json-differential.py JSON_TOOL

Python's parser is configured to reject NaN and Infinity, as ours does. Numbers are compared as
text. The members of an object are compared as a list, with duplicates.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator

INT64 = range(-(2**63), 2**63)
SEED = 7


class Number(str):
    """The text of a number. It does not equal a string with the same text."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and str(self) == str(other)

    __hash__ = str.__hash__


def reject(constant: str) -> None:
    raise ValueError(constant)


def load(text: str) -> object:
    return json.loads(
        text, parse_int=Number, parse_float=Number, parse_constant=reject, object_pairs_hook=tuple
    )


# Texts


def short_texts() -> Iterator[bytes]:
    """All texts of up to four of these pieces."""
    for length in range(5):
        for pieces in itertools.product(
            ["-", "0", "1", ".", "e", "+", '"', "\\", "u", "[", "]", "{", "}", ",", ":", " "],
            repeat=length,
        ):
            yield "".join(pieces).encode()


PIECES = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b" ",
    b"\n",
    b"\t",
    b"\r",
    b"true",
    b"false",
    b"null",
]
PIECES += [
    b'"a"',
    b'"":',
    b"0",
    b"1",
    b"-",
    b".5",
    b"e",
    b"E+",
    b"12",
    b"NaN",
    b"Infinity",
    b"/",
    b"'",
    b"\x00",
]
PIECES += [
    b"\\u0000",
    b"\\ud83d",
    b"\\ude00",
    b"\\u00E9",
    b"\\n",
    b"\\x",
    b"\x1f",
    b"\x7f",
    b"\xc2\xa0",
    b"\xff",
]
PIECES += [
    "é".encode(),
    "€".encode(),
    "😀".encode(),
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"\xf4\x90\x80\x80",
    b"\xe2\x80",
]


def mixed_texts(rng: random.Random, count: int) -> Iterator[bytes]:
    for _ in range(count):
        text = b"".join(rng.choices(PIECES, k=rng.randint(1, 9)))
        yield rng.choice([b"%s", b"[%s]", b'"%s"', b'{"a":%s}', b'{"%s":1}']) % text


def random_string(rng: random.Random) -> str:
    alphabet = 'ab "\\/\b\n\t\0\x1f\x7f\x80é€\u2028\ud800\udfff😀\U0010ffff'
    return "".join(rng.choices(alphabet, k=rng.randint(0, 20)))


def random_number(rng: random.Random) -> str:
    def digits(most: int) -> str:
        return "".join(rng.choices("0001234567899", k=rng.randint(1, most)))

    text = rng.choice(["", "-"]) + str(int(digits(21)))
    if rng.random() < 0.5:
        text += "." + digits(21)
    if rng.random() < 0.5:
        text += rng.choice("eE") + rng.choice(["", "+", "-"]) + digits(2)
    return text


def random_value(rng: random.Random, depth: int = 0) -> object:
    kind = rng.randint(0, 7 if depth < 5 else 4)
    if kind >= 6:
        return {random_string(rng): random_value(rng, depth + 1) for _ in range(rng.randint(0, 5))}
    if kind == 5:
        return [random_value(rng, depth + 1) for _ in range(rng.randint(0, 5))]
    return [
        None,
        rng.random() < 0.5,
        rng.randint(-(2**70), 2**70),
        rng.uniform(-1e3, 1e3),
        random_string(rng),
    ][kind]


def encoded_texts(rng: random.Random, count: int) -> Iterator[bytes]:
    """Texts that Python writes, each followed by a copy with some bytes changed."""
    for _ in range(count):
        indent = rng.choice([None, None, 1])
        text = json.dumps(random_value(rng), ensure_ascii=rng.random() < 0.5, indent=indent)
        valid = text.encode("utf-8", "surrogatepass")
        yield valid
        broken = bytearray(valid)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(broken) + 1)
            broken[at : at + rng.randint(0, 2)] = rng.choice([b"", *PIECES])
        yield bytes(broken)


def numbers(rng: random.Random, count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield random_number(rng).encode()
    for edge in (2**63, -(2**63)):
        for number in range(edge - 3, edge + 4):
            yield str(number).encode()
            yield f"{number}.00".encode()
            yield f"{number}0e-1".encode()


# Both sides


def run_tool(tool: str, texts: list[bytes]) -> Iterator[tuple[bool, bytes, str]]:
    """For each text: whether we accept it, the output or message, and the integer or "-"."""
    stdin = b"".join(b"%d\n%s" % (len(text), text) for text in texts)
    output = subprocess.run([tool], input=stdin, stdout=subprocess.PIPE, check=True).stdout
    at = 0
    for _ in texts:
        newline = output.index(b"\n", at)
        status, size, integer = output[at:newline].split()
        at = newline + 1 + int(size)
        yield status == b"ok", output[newline + 1 : at], integer.decode()
    assert at == len(output)


def int64(number: str) -> int | None:
    """The value of a number, without rounding, or None if it is not an integer of 64 bits."""
    sign, whole, fraction, exponent = re.fullmatch(
        r"(-?)(\d+)\.?(\d*)(?:[eE](.*))?", number
    ).groups()
    value = int(sign + whole + fraction)
    shift = int(exponent or 0) - len(fraction)
    if value == 0:
        return 0
    if abs(shift) > len(number) + 19:
        return None
    value, rest = divmod(value * 10 ** max(shift, 0), 10 ** max(-shift, 0))
    return value if rest == 0 and value in INT64 else None


def difference_of(text: bytes, accepted: bool, written: bytes, integer: str) -> str | None:
    """How our result for a text differs from Python's, or None."""
    try:
        value = load(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        return f"we accept it, Python rejects it: {error}" if accepted else None
    if not accepted:
        return "Python accepts it, we reject it: " + written.decode()
    if load(written.decode("utf-8")) != value:
        return f"the values differ: {written!r}"
    if isinstance(value, Number):
        expected = int64(value)
        if integer != ("-" if expected is None else str(expected)):
            return f"the integer is {integer}"
    return None


def main() -> int:
    rng = random.Random(SEED)
    texts = [
        *short_texts(),
        *mixed_texts(rng, 20000),
        *encoded_texts(rng, 3000),
        *numbers(rng, 5000),
    ]
    wrong = accepted = 0
    for text, answer in zip(texts, run_tool(sys.argv[1], texts)):
        difference = difference_of(text, *answer)
        accepted += answer[0]
        if difference:
            wrong += 1
            print(f"{text!r}: {difference}")
    print(f"{len(texts)} texts, {accepted} of them valid JSON, {wrong} differences")
    return 1 if wrong or not 0 < accepted < len(texts) else 0


if __name__ == "__main__":
    sys.exit(main())
