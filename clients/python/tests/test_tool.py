"""Functions behind the gate, against a real server."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from asking import answering
from stage import Proxy, Server

import byleave

#: Allowed without a question, as far as the built-in policy goes.
QUIET: byleave.Declaration = {"kind": "readonly", "sensitive": False}


def test_a_function_runs_when_a_person_says_yes_and_not_when_not(bot: byleave.Client, ann: byleave.Client) -> None:
    ran: list[int] = []

    @byleave.tool(client=bot)
    def refund(order: str, cents: int = 100) -> dict[str, Any]:
        """Pays money back."""
        ran.append(cents)
        return {"order": order, "cents": cents}

    with answering(ann, "client.bot.refund", "no", feedback="not this one"), pytest.raises(byleave.Refused) as error:
        refund("a1")
    assert ran == [] and "not this one" in error.value.reason and error.value.page.endswith(".md")
    with answering(ann, "client.bot.refund", "yes"):
        assert refund("a1", cents=5) == {"order": "a1", "cents": 5}
    assert ran == [5]
    entry = ann.audit_log(tool="client.bot.refund", limit=1)[0]
    assert (entry.agent, entry.outcome) == ("bot", "completed")


def test_the_same_key_runs_it_once(bot: byleave.Client) -> None:
    ran: list[str] = []

    @byleave.tool(client=bot, declaration=QUIET)
    def once(text: str) -> str:
        ran.append(text)
        return text.upper()

    first = once.run({"text": "a"}, key="own-once")
    assert (once.run({"text": "a"}, key="own-once"), first.output, ran) == (first, "A", ["a"])
    with pytest.raises(byleave.Conflict):
        once.run({"text": "b"}, key="own-once")
    assert ran == ["a"]


def test_two_processes_with_one_key_run_it_once(server: Server) -> None:
    ran: list[int] = []
    hold = threading.Event()

    def one(number: int, outcomes: list[Any]) -> None:
        with byleave.Client(server.url, server.bot) as client:

            @byleave.tool(client=client, declaration={**QUIET, "timeout_ms": 20_000}, name="both")
            def both() -> int:
                ran.append(number)
                hold.wait(5)
                return number

            try:
                outcomes.append(both.run({}, key="both"))
            except byleave.Conflict as claimed:
                outcomes.append(claimed.code)
                hold.set()

    outcomes: list[Any] = []
    threads = [threading.Thread(target=one, args=(number, outcomes)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ran) == 1, outcomes
    results = [one for one in outcomes if isinstance(one, byleave.Result)]
    codes = [one for one in outcomes if not isinstance(one, byleave.Result)]
    assert all(code == "claimed" for code in codes), outcomes
    assert len(outcomes) == 2 and all(result.data == {"value": ran[0]} for result in results) and results, outcomes


def test_reviewers_see_change_and_refuse_and_it_is_in_the_audit_log(bot: byleave.Client, ann: byleave.Client) -> None:
    ran: list[str] = []

    def clean(subject: byleave.Input) -> Any:
        query = subject.arguments["query"]
        if "drop" in query:
            return byleave.deny("no dropping")
        return {"query": query.replace(";", "").replace("--", "")}

    def drop_secrets(subject: byleave.Output) -> Any:
        if not subject.value:
            return False
        return byleave.change({k: v for k, v in subject.value.items() if k not in ("password", "token")}, "secrets")

    @byleave.tool(client=bot, declaration=QUIET, input=clean, output=drop_secrets)
    def sql(query: str) -> dict[str, str]:
        ran.append(query)
        return {"user": "ann", "password": "x", "token": "y"} if query else {}

    assert sql("select 1; --") == {"user": "ann"} and ran == ["select 1 "]
    call = ann.audit_log(tool="client.bot.sql", limit=1)[0].call
    record = json.dumps([entry.entry for entry in ann.record(call).entries])
    assert '"reviewer": "client"' in record and "secrets" in record
    with pytest.raises(byleave.Refused) as refused:
        sql("drop table")
    assert refused.value.code == "review-denied" and "no dropping" in refused.value.reason
    assert ann.audit_log(tool="client.bot.sql", limit=1)[0].code == "review-denied"
    with pytest.raises(byleave.Withheld) as withheld:
        sql(";")
    assert withheld.value.code == "output-denied" and ran == ["select 1 ", ""]


@pytest.mark.parametrize("broken", [lambda _: 1 / 0, lambda _: None])
def test_a_reviewer_that_breaks_blocks(bot: byleave.Client, broken: Any) -> None:
    ran: list[int] = []

    @byleave.tool(client=bot, declaration=QUIET, input=broken)
    def before() -> None:
        ran.append(1)

    with pytest.raises(byleave.Refused):
        before()
    assert ran == []

    @byleave.tool(client=bot, declaration=QUIET, output=broken)
    def after() -> str:
        return "secret"

    with pytest.raises(byleave.Withheld) as withheld:
        after()
    assert "secret" not in withheld.value.result.text()


def test_what_a_person_edits_is_reviewed_again(bot: byleave.Client, ann: byleave.Client) -> None:
    ran: list[int] = []

    @byleave.tool(client=bot, input=lambda subject: subject.arguments["cents"] < 100)
    def pay(cents: int) -> int:
        ran.append(cents)
        return cents

    with answering(ann, "client.bot.pay", "edit", value={"cents": 7}):
        assert pay(5) == 7
    with answering(ann, "client.bot.pay", "edit", value={"cents": 700}), pytest.raises(byleave.Failed) as failed:
        pay(5)
    assert ran == [7] and "did not run" in str(failed.value)


def test_a_function_that_fails_is_a_failure_that_the_model_can_read(bot: byleave.Client) -> None:
    @byleave.tool(client=bot, declaration=QUIET)
    def fail() -> None:
        raise ValueError("no such order")

    assert "ValueError: no such order" in fail.run({}).text()
    with pytest.raises(byleave.Failed):
        fail()


def test_a_guarded_function_may_use_another(bot: byleave.Client) -> None:
    @byleave.tool(client=bot, declaration=QUIET)
    def inner() -> str:
        return "in"

    @byleave.tool(client=bot, declaration=QUIET)
    def outer() -> str:
        return "out of " + inner()

    assert outer() == "out of in"


def test_asynchronous_functions_and_reviewers(server: Server) -> None:
    async def slow(subject: byleave.Input) -> Any:
        await asyncio.sleep(0)
        return {"n": subject.arguments["n"] + 1}

    async def use() -> None:
        async with byleave.AsyncClient(server.url, server.bot) as client:

            @byleave.tool(client=client, declaration={**QUIET, "concurrency_safe": True}, input=slow)
            async def double(n: int) -> int:
                await asyncio.sleep(0)
                return n * 2

            assert await asyncio.gather(*(double(n) for n in range(4))) == [2, 4, 6, 8]

    asyncio.run(use())


def test_lost_answers_run_nothing_twice(server: Server, proxy: Proxy) -> None:
    ran: list[int] = []
    for path in ("/client-tools/count", "/calls", "/claim", "/report"):
        proxy.cuts[path] = (10, 2)
    with byleave.Client(proxy.url, server.bot) as client:

        @byleave.tool(client=client, declaration=QUIET)
        def count() -> int:
            ran.append(1)
            return len(ran)

        assert count() == 1
    assert ran == [1] and all(times == 0 for _, times in proxy.cuts.values()), proxy.cuts


def test_a_server_that_dies_in_the_middle_leaves_it_unknown(own_server: Server) -> None:
    ran: list[int] = []
    with byleave.Client(own_server.url, own_server.bot) as client:

        @byleave.tool(client=client, declaration=QUIET)
        def crash() -> str:
            ran.append(1)
            own_server.kill()
            own_server.start()
            return "done"

        with pytest.raises(byleave.Unknown) as unknown:
            crash.run({}, key="crash").released()
        assert unknown.value.code == "interrupted"
        assert crash.run({}, key="crash").outcome == "unknown" and ran == [1]


def test_without_a_server_nothing_runs() -> None:
    ran: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    @byleave.tool(client=byleave.Client(f"http://127.0.0.1:{port}", "t", tries=2), declaration=QUIET)
    def never() -> None:
        ran.append(1)

    with pytest.raises(byleave.Unreachable):
        never()
    assert ran == []


@contextmanager
def fake_server(answers: dict[str, Any]) -> Iterator[str]:
    """A fake server with scripted responses, by the end of the path."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.partition("?")[0]
            status, reply = next(answer for end, answer in answers.items() if path.endswith(end))
            body = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT = do_POST = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}"
    finally:
        httpd.shutdown()
        httpd.server_close()


NAME = {"/never": (200, {"tool": "client.bot.never"})}
CALL = {"call": "c", "state": "ready"}


@pytest.mark.parametrize(
    "answers",
    [
        {"": (200, b"hello")},
        {"": (500, b"")},
        {"": (302, b"")},
        {"": (200, {})},
        {"/never": (200, {"tool": 1}), "": (200, CALL)},
        {**NAME, "": (200, {"call": "c", "state": "perhaps"})},
        {**NAME, "": (200, {"call": "c", "state": "settled"})},
        {**NAME, "/claim": (200, {**CALL, "state": "claimed"}), "": (200, CALL)},
        {**NAME, "/claim": (200, {**CALL, "state": "claimed", "arguments": [1]}), "": (200, CALL)},
        {**NAME, "/claim": (200, b"\xff"), "": (200, CALL)},
    ],
)
def test_an_invalid_response_runs_nothing(answers: dict[str, Any]) -> None:
    ran: list[int] = []
    with fake_server(answers) as url, byleave.Client(url, "t", tries=2) as client:

        @byleave.tool(client=client, declaration=QUIET)
        def never() -> None:
            ran.append(1)

        with pytest.raises(byleave.InvalidResponse):
            never()
    assert ran == []


def test_signatures_become_schemas() -> None:
    @byleave.tool
    def many(a: str, b: list[int], c: dict[str, float] | None = None, *, d: bool = False) -> None:
        """What it does."""

    assert many.description == "What it does." and many.name == "many"
    assert many.schema == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "array", "items": {"type": "integer"}},
            "c": {"anyOf": [{"type": "object", "additionalProperties": {"type": "number"}}, {"type": "null"}]},
            "d": {"type": "boolean"},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    with pytest.raises(TypeError):

        @byleave.tool
        def odd(*args: str) -> None: ...


def test_a_function_is_given_the_data_of_the_function_that_it_names(bot: byleave.Client) -> None:
    given: list[Any] = []

    @byleave.tool(client=bot, declaration=QUIET)
    def find_orders(customer: str) -> list[str]:
        return [customer, "a17"]

    @byleave.tool(client=bot, declaration={**QUIET, "wants_data": [find_orders]})
    def refund_all() -> int:
        given.append(byleave.earlier_data(find_orders))
        return 1

    @byleave.tool(client=bot, declaration=QUIET)
    def unrelated() -> int:
        given.append(byleave.earlier_data(find_orders))
        return 1

    # It registers the function that it names, which was never called.
    refund_all.run({}, session="data")
    find_orders.run({"customer": "ann"}, session="data")
    refund_all.run({}, session="data")
    refund_all.run({}, session="elsewhere")
    unrelated.run({}, session="data")
    assert given == [None, ["ann", "a17"], None, None]

    @byleave.tool(client=bot, declaration={**QUIET, "wants_data": ["client.bot.no_such_function"]})
    def mistaken() -> int:
        return 1

    with pytest.raises(byleave.Problem) as error:
        mistaken()
    assert "client.bot.no_such_function" in error.value.detail
