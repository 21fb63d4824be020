"""MariaDB with a database and a user for the tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.services.server import Server


class Mariadb(Server):
    program = "mariadbd"
    package = "mariadb-server"

    @property
    def url(self) -> str:
        return f"mysql://dragoman:secret@127.0.0.1:{self.port}/dragoman"

    def prepare(self) -> None:
        self.executable()
        install = ("mariadb-install-db", "--no-defaults", "--skip-test-db")
        root = "--auth-root-authentication-method=normal"
        subprocess.run(
            [*install, root, f"--datadir={self.data}", *self._user()], check=True, capture_output=True
        )
        self._setup.write_text(
            "CREATE DATABASE IF NOT EXISTS dragoman CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;\n"
            "CREATE USER IF NOT EXISTS dragoman@'127.0.0.1' IDENTIFIED BY 'secret';\n"
            "GRANT ALL ON dragoman.* TO dragoman@'127.0.0.1';\n"
        )

    def command(self) -> Sequence[str]:
        return (
            self.executable(),
            "--no-defaults",
            f"--datadir={self.data}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.data}/server.sock",
            f"--pid-file={self.data}/server.pid",
            f"--init-file={self._setup}",
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=64M",
            *self._user(),
        )

    def answers(self) -> bool:
        import pymysql

        try:
            pymysql.connect(
                host="127.0.0.1", port=self.port, user="dragoman", password="secret", database="dragoman"
            ).close()
        except pymysql.err.OperationalError as error:
            raise OSError from error
        return True

    @property
    def _setup(self) -> Path:
        return self.data.with_suffix(".sql")

    @staticmethod
    def _user() -> tuple[str, ...]:
        return ("--user=root",) if os.geteuid() == 0 else ()
