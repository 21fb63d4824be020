"""PostgreSQL, run by the unprivileged user it insists on."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.services.server import Server


class Postgres(Server):
    program = "postgres"
    package = "postgresql"
    stop_signal = signal.SIGINT

    @property
    def url(self) -> str:
        return f"postgresql://dragoman:secret@127.0.0.1:{self.port}/dragoman"

    @classmethod
    def _find(cls) -> str | None:
        cls.folders = tuple(
            sorted((str(path) for path in Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
        )
        return super()._find()

    def prepare(self) -> None:
        initdb = str(Path(self.executable()).with_name("initdb"))
        password = self.data.with_suffix(".password")
        password.write_text("secret")
        self._own(self.data, password)
        options = ("-A", "scram-sha-256", "--no-sync", "--locale=C.UTF-8", "-E", "UTF8")
        subprocess.run(
            [*self._as_user(), initdb, "-D", self.data, "-U", "dragoman", f"--pwfile={password}", *options],
            check=True,
            capture_output=True,
            cwd="/",
        )

    def command(self) -> Sequence[str]:
        options = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "60",
        }
        words = (word for name, value in options.items() for word in ("-c", f"{name}={value}"))
        return (*self._as_user(), self.executable(), "-D", str(self.data), *words)

    def answers(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(self._admin_url, autocommit=True, connect_timeout=2) as connection:
                found = connection.execute("SELECT 1 FROM pg_database WHERE datname = 'dragoman'").fetchone()
                if found is None:
                    connection.execute("CREATE DATABASE dragoman")
        except psycopg.OperationalError as error:
            raise OSError from error
        return True

    @property
    def _admin_url(self) -> str:
        return self.url.removesuffix("/dragoman") + "/postgres"

    @staticmethod
    def _as_user() -> tuple[str, ...]:
        if os.geteuid() != 0:
            return ()
        user = shutil.which("setpriv") or "/usr/bin/setpriv"
        return (user, "--reuid=postgres", "--regid=postgres", "--clear-groups", "--")

    @staticmethod
    def _own(data: Path, *files: Path) -> None:
        """As root, give the folder to the postgres user and let it pass through the folders above."""
        if os.geteuid() != 0:
            return
        user = pwd.getpwnam("postgres")
        for path in (data, *files):
            os.chown(path, user.pw_uid, user.pw_gid)
        for parent in data.parents:
            if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
                parent.chmod(parent.stat().st_mode | 0o011)
