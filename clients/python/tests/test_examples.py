"""The examples run, against a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from asking import answering
from stage import Server

import byleave

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, server: Server) -> str:
    env = {**os.environ, "BYLEAVE_URL": server.url, "BYLEAVE_TOKEN": server.bot}
    ran = subprocess.run([sys.executable, EXAMPLES / name], env=env, cwd=server.dir, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_refunds(server: Server, ann: byleave.Client) -> None:
    with answering(ann, "client.bot.refund", "yes") as answered:
        printed = run("refunds.py", server)
    assert len(answered) == 1
    assert "paid back: {'cents': 500, 'order': 'a17'}" in printed
    assert "refused: " in printed and "more than 100 is never paid back (review-denied, https://" in printed
    assert "4111" not in printed


@pytest.mark.parametrize("name", ["langchain_agent.py", "openai_agent.py", "pydantic_ai_agent.py", "google_adk_agent.py"])
def test_agents(server: Server, ann: byleave.Client, name: str) -> None:
    (server.dir / "README.md").write_text("read me\n")
    (server.dir / ".env").write_text("SECRET=1\n")
    before = {entry.call for entry in ann.audit_log(agent="bot", limit=1000)}
    printed = run(name, server)
    assert "read me" in printed and "HELLO" in printed and "model: done" in printed
    assert "refused" in printed and "denied" in printed and "SECRET" not in printed
    calls = [entry for entry in ann.audit_log(agent="bot", limit=1000) if entry.call not in before]
    outcomes = sorted((entry.tool, entry.outcome) for entry in calls)
    assert outcomes == [("client.bot.shout", "completed"), ("read_file", "completed"), ("read_file", "refused")]
