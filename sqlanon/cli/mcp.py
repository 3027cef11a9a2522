"""`sqlanon mcp`: a gateway as tools for agents, over the Model Context Protocol."""

from __future__ import annotations

import logging
import sys
from contextlib import closing
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from sqlanon.cli.gateway_options import POLICY, load_policy, principal_of, require_ledger
from sqlanon.errors import SqlanonError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp.server import MCPServer

    from sqlanon.cli.agent_tools import AgentTools

INSTRUCTIONS = (
    "Questions about personal data, in SQL. Answers about persons are aggregates with noise, and are charged to a "
    "budget that is never given back. List the tables first; explain a statement before you ask it; say the error "
    "bars with each number."
)


@click.command()
@POLICY
@click.option("--as", "principal", metavar="PRINCIPAL", help="Who asks; needed if the policy names several principals.")
def mcp(policy_file: str, principal: str | None) -> None:
    """Let an agent ask the gateway of a policy, as one principal with a budget of its own.

    It speaks the Model Context Protocol on standard input and output; the program of the agent starts it. The tools are
    list_tables, explain, dry_run, ask and budget. Whatever the agent says, it gets the answers that this principal
    would get from 'sqlanon query', at the same price.
    """
    from sqlanon.cli.agent_tools import AgentTools
    from sqlanon.gateway import open_gateway
    from sqlanon.gateway.synthetic import open_synthetic

    make = server_maker()
    policy = load_policy(policy_file)
    who = principal_of(policy, principal)
    require_ledger(policy, policy_file)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING, stream=sys.stderr)
    with closing(AgentTools(open_gateway(policy), who, lambda: open_synthetic(policy))) as tools:
        make(tools).run("stdio")


def server_maker() -> Callable[[AgentTools], MCPServer[Any]]:
    """What makes the server, or an error that names the missing package."""
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        raise SqlanonError("agents need the package mcp", hint="pip install 'sqlanon[agents]'") from None
    from sqlanon import __version__
    from sqlanon.cli.agent_tools import AgentError

    def guarded(tool: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        @wraps(tool)
        def call(*args: Any, **given: Any) -> dict[str, Any]:
            try:
                return tool(*args, **given)
            except AgentError as error:
                raise ToolError(str(error)) from None

        return call

    def make(tools: AgentTools) -> MCPServer[Any]:
        server: MCPServer[Any] = MCPServer(
            "sqlanon", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
        )
        for tool in tools.all:
            server.add_tool(guarded(tool), name=tool.__name__, structured_output=True)
        return server

    return make
