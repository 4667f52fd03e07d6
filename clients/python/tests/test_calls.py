"""Calls through the client, against a real server."""

from __future__ import annotations

import asyncio
import socket

import pytest
from asking import answering
from stage import Proxy, Server

import byleave


def test_a_call_is_made_and_released(server: Server, bot: byleave.Client) -> None:
    (server.dir / "a.txt").write_text("hello\n")
    result = bot.call("read_file", {"path": "a.txt"})
    assert result.success and "hello" in result.released()
    assert bot.status(result.call).state == "settled"
    assert bot.wait(result.call) == result


def test_the_same_key_is_one_call(server: Server, bot: byleave.Client, ann: byleave.Client) -> None:
    with answering(ann, "write_file", "yes"):
        first = bot.call("write_file", {"path": "once.txt", "content": "1"}, key="once", timeout_s=30)
    assert first.success, first.text()
    (server.dir / "once.txt").write_text("2")
    assert bot.call("write_file", {"path": "once.txt", "content": "1"}, key="once") == first
    assert (server.dir / "once.txt").read_text() == "2", "it did not run again"
    with pytest.raises(byleave.Conflict) as reused:
        bot.call("write_file", {"path": "once.txt", "content": "3"}, key="once")
    assert reused.value.code == "call-reused" and "call-reused" in reused.value.page


def test_a_lost_answer_is_asked_for_again_under_the_same_key(server: Server, proxy: Proxy, ann: byleave.Client) -> None:
    (server.dir / "b.txt").write_text("hello\n")
    proxy.cuts["/calls"] = (20, 2)
    with byleave.Client(proxy.url, server.bot) as bot:
        before = len(ann.audit_log(tool="read_file", limit=1000))
        assert bot.call("read_file", {"path": "b.txt"}).success
    keys = [line for request in proxy.requests for line in request.split("\r\n") if line.lower().startswith("idempotency-key")]
    assert len(keys) == 3 and len(set(keys)) == 1
    assert len(ann.audit_log(tool="read_file", limit=1000)) == before + 1


def test_a_person_answers_while_the_agent_waits(server: Server, bot: byleave.Client, ann: byleave.Client) -> None:
    arguments = {"path": "asked.txt", "content": "x"}
    with answering(ann, "write_file", "no", feedback="use another name"):
        refused = bot.call("write_file", arguments, timeout_s=30)
    assert refused.outcome == "refused" and refused.refusal is not None
    assert not (server.dir / "asked.txt").exists()
    with pytest.raises(byleave.Refused) as error:
        refused.released()
    assert "use another name" in error.value.reason and error.value.page.endswith(f"{error.value.code}.md")
    # A refused call stays refused if it is repeated. A different call is asked about.
    assert not bot.call("write_file", arguments, timeout_s=30).success
    with answering(ann, "write_file", "yes"):
        assert bot.call("write_file", {**arguments, "content": "y"}, timeout_s=30).success
    assert (server.dir / "asked.txt").read_text() == "y"


def test_a_person_answers_in_the_place_of_the_tool(server: Server, bot: byleave.Client, ann: byleave.Client) -> None:
    with answering(ann, "write_file", "result", text="it is written already"):
        answered = bot.call("write_file", {"path": "known.txt", "content": "x"}, timeout_s=30)
    assert answered.outcome == "answered" and answered.success
    assert answered.released().splitlines() == [
        "[byleave] a person (ann) answered in the place of the tool; the tool did not run",
        "it is written already",
    ]
    assert not (server.dir / "known.txt").exists()
    approvals = [event.data["approved"] for event in bot.events(answered.call) if event.event == "tool_approval"]
    assert approvals == [False]


def test_a_denied_call_is_a_result_with_code_reason_and_page(server: Server, bot: byleave.Client) -> None:
    (server.dir / ".env").write_text("SECRET=1")
    result = bot.call("read_file", {"path": ".env"})
    assert result.outcome == "refused" and result.refusal is not None
    assert result.refusal.code == "denied" and result.refusal.message and result.refusal.page.startswith("https://")
    assert "SECRET" not in result.text()


def test_waiting_ends_when_the_time_is_over_and_the_call_does_not(bot: byleave.Client) -> None:
    with pytest.raises(byleave.WaitTimeout) as late:
        bot.call("write_file", {"path": "late.txt", "content": ""}, timeout_s=0.3)
    assert late.value.state == "waiting"
    cancelled = bot.cancel(late.value.call)
    assert cancelled.result is not None and cancelled.result.refusal is not None
    assert cancelled.result.refusal.code == "cancelled"


def test_events_go_on_where_they_were_when_the_connection_breaks(server: Server, proxy: Proxy, ann: byleave.Client) -> None:
    with byleave.Client(proxy.url, server.bot) as bot:
        with answering(ann, "write_file", "yes"):
            result = bot.call("write_file", {"path": "sse.txt", "content": ""}, timeout_s=30)
        whole = list(bot.events(result.call))
        # Cuts the connection after the response head and some events, in the middle of an event.
        proxy.cuts["/events"] = (3000, 2)
        proxy.requests.clear()
        assert list(bot.events(result.call)) == whole
    numbers = [event.id for event in whole if event.id is not None]
    assert numbers == list(range(len(numbers))) and len(numbers) > 5
    assert [event.data["approved"] for event in whole if event.event == "tool_approval"] == [True]
    resumed = [request for request in proxy.requests if "last-event-id" in request.lower()]
    assert len(resumed) >= 2, proxy.requests


def test_questions_standing_approvals_and_the_audit_log(server: Server, bot: byleave.Client, ann: byleave.Client) -> None:
    status = bot.submit("write_file", {"path": "approved.txt", "content": ""}, session="approvals", wait_s=5)
    assert status.state == "waiting" and status.question is not None
    view = ann.question(status.question.id)
    assert view.complete and view.question.digest == status.question.digest
    with pytest.raises(byleave.Conflict):
        ann.answer(view.question.id, "0" * 64, "yes")
    with pytest.raises(byleave.Forbidden):
        bot.answer(view.question.id, view.question.digest, "yes")
    ann.answer(view.question.id, view.question.digest, "standing-approval", scope=view.approval_scopes[0].scope)
    assert bot.wait(status.call, timeout_s=30).success
    approval = next(one for one in ann.standing_approvals() if one.call == status.call)
    assert approval.state == "active" and approval.approver == "ann"
    ann.revoke(approval.standing_approval)
    revoked = next(one for one in ann.standing_approvals() if one.standing_approval == approval.standing_approval)
    assert revoked.state == "revoked"
    assert ann.audit_log(tool="write_file", limit=1)[0].call
    assert ann.record(status.call).entries[0].seq == 0
    assert status.call in ann.export() and ann.export("markdown")
    assert ann.verify().intact
    with pytest.raises(byleave.Forbidden):
        bot.audit_log()


def test_tools_explain_halt_and_health(bot: byleave.Client, ann: byleave.Client) -> None:
    assert "read_file" in [tool.name for tool in bot.tools()]
    explained = bot.explain("read_file", {"path": ".env"})
    assert explained.verdict == "deny" and explained.reasons
    assert bot.health().status == "ok"
    bot.call("read_file", {"path": "a.txt"})
    rules = '[[rule]]\nid = "no-reading"\nverdict = "deny"\nread = "a.txt"\nreason = "not this one"\n'
    replay = ann.replay(rules)
    assert replay.evaluated > 0 and "no-reading" in [change.rule for change in replay.changed]
    with pytest.raises(byleave.Forbidden):
        bot.replay(rules)
    ann.halt("a test")
    try:
        assert ann.halt_status().halted
        halted = bot.call("read_file", {"path": "a.txt"})
        assert halted.refusal is not None and halted.refusal.code == "halted"
    finally:
        ann.lift()
    assert not ann.halt_status().halted


def test_problems_have_types(server: Server, bot: byleave.Client) -> None:
    with byleave.Client(server.url, "byl_00000000_no") as stranger, pytest.raises(byleave.Unauthenticated):
        stranger.tools()
    for call in ("00000000-0000-0000-0000-000000000000", "../health", ".."):
        with pytest.raises(byleave.NotFound):
            bot.status(call)


def test_a_server_that_is_not_there_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with byleave.Client(f"http://127.0.0.1:{port}", "t", tries=2) as nobody, pytest.raises(byleave.Unreachable):
        nobody.call("read_file", {"path": "a.txt"})


def test_the_same_without_waiting_in_a_thread(server: Server, ann: byleave.Client) -> None:
    async def use() -> None:
        async with byleave.AsyncClient(server.url, server.bot) as bot:
            (server.dir / "c.txt").write_text("hello\n")
            results = await asyncio.gather(*(bot.call("read_file", {"path": "c.txt"}) for _ in range(4)))
            assert all(result.success for result in results) and len({result.call for result in results}) == 4
            with answering(ann, "write_file", "yes"):
                asked = await bot.call("write_file", {"path": "async.txt", "content": ""}, timeout_s=30)
            events = [event async for event in bot.events(asked.call)]
            assert events[0].id == 0 and "tool_approval" in [event.event for event in events]
            assert (await bot.health()).status == "ok"
            assert [tool.name for tool in await bot.tools()]

    asyncio.run(use())
