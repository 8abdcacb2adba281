"""How a server is reached, by each of the ways there are."""

from __future__ import annotations

from trunkline.config.server import ServerSpec
from trunkline.errors import AuthorizationNeededError, UpstreamError
from trunkline.tasks import Tasks
from trunkline.upstream.authorization import Authorize
from trunkline.upstream.connection import Connection, ConnectionEvents
from trunkline.upstream.connection_key import ConnectionKey
from trunkline.upstream.egress import PublicOnly
from trunkline.upstream.http import HttpConnection
from trunkline.upstream.http1 import HttpClient
from trunkline.upstream.local import connect_local
from trunkline.upstream.process import Warden
from trunkline.upstream.response import NotStreamableError
from trunkline.upstream.sse import connect_sse
from trunkline.upstream.stdio import connect_stdio


class Dialer:
    """Makes connections; whoever asked for one keeps it."""

    def __init__(self, tasks: Tasks, warden: Warden, authorize: Authorize) -> None:
        self._tasks, self._warden, self._authorize = tasks, warden, authorize
        self._client, self._public = HttpClient(), HttpClient(PublicOnly())
        self.old: set[str] = set()
        """Servers that were found to speak HTTP+SSE."""

    def close(self) -> None:
        """Close what was kept of HTTP."""
        self._client.close()
        self._public.close()

    async def dial(self, spec: ServerSpec, events: ConnectionEvents, key: ConnectionKey) -> Connection:
        """A connection that shook hands, in the era of its key."""
        era = spec.era if key.era == "auto" else key.era
        if spec.kind == "local":
            return await connect_local(spec, events, self._tasks, era=era)
        if spec.kind == "stdio":
            return await connect_stdio(spec, events, self._warden, era=era)
        credential = self._authorize(spec, key.user)
        client = self._public if spec.public_only else self._client
        if spec.kind == "sse":
            return await connect_sse(spec, events, client, self._tasks, credential)
        remote = HttpConnection(spec, events, client, self._tasks, credential)
        try:
            await remote.open(era=era)
        except NotStreamableError as error:
            if spec.transport == "http" or era == "modern":
                raise
            try:
                connection = await connect_sse(spec, events, client, self._tasks, credential)
            except AuthorizationNeededError:
                raise
            except UpstreamError:
                raise error from None
            self.old.add(spec.fingerprint)
            return connection
        remote.listen()
        return remote
