"""Rows at real addresses: a web server with and without parts of files, an S3 server, and DuckDB's httpfs."""

from __future__ import annotations

import builtins
import contextlib
import functools
import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.data import files
from dpstats.data.duckdb_rows import Address
from dpstats.errors import InvalidData
from dpstats.means import ClippedMean

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

FILES = 200


def mean(X: Any) -> np.ndarray:
    return ClippedMean(bounds={"x": (0, 10)}, random_state=0).fit(X).mean_


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 Parquet files in two folders that name a column."""
    root, rng = tmp_path_factory.mktemp("rows"), np.random.default_rng(0)
    for part in range(FILES):
        below = root / "rows" / f"month={part % 2}"
        below.mkdir(parents=True, exist_ok=True)
        pd.DataFrame({"x": rng.normal(5, 1, 10)}).to_parquet(below / f"part-{part:03}.parquet", index=False)
    # Rows that are links, of which no page is made.
    links = [f'"<a href=""{name}.csv"">"' for name in "abc"]
    (root / "links.csv").write_text("\n".join(["x,link", *(f"{k},{link}" for k, link in enumerate(links))]))
    return root


class Pages(http.server.SimpleHTTPRequestHandler):
    """A web server that lists folders."""

    def log_message(self, *given: Any) -> None:
        pass


class Parts(Pages):
    """A web server that sends parts of files, as most do."""

    def end_headers(self) -> None:
        self.send_header("Accept-Ranges", "bytes")
        super().end_headers()

    def do_GET(self) -> None:
        path, asked = self.translate_path(self.path), self.headers.get("Range", "")
        if not asked or not os.path.isfile(path):
            super().do_GET()
            return
        content = Path(path).read_bytes()
        first, last = asked.removeprefix("bytes=").split("-")
        start, end = int(first), min(int(last or len(content)), len(content) - 1)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{end}/{len(content)}")
        self.send_header("Content-Length", str(end - start + 1))
        self.end_headers()
        self.wfile.write(content[start : end + 1])


@contextlib.contextmanager
def served(kind: type[Pages], folder: Path) -> Iterator[str]:
    """Serve a folder, and give its address."""
    handler = functools.partial(kind, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(params=[Pages, Parts])
def site(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    with served(request.param, folder) as address:
        yield address


def test_a_web_server_has_files(site: str, folder: Path) -> None:
    one = folder / "rows" / "month=0" / "part-000.parquet"
    address = f"{site}/rows/month=0/part-000.parquet"
    np.testing.assert_array_equal(mean(address), mean(one))
    np.testing.assert_array_equal(mean(f"{address}?token=secret"), mean(one))
    assert mean(f"{site}/links.csv").shape == (1,)
    with pytest.raises(InvalidData) as error:
        mean(f"{site}/none.parquet?token=secret")
    assert "secret" not in str(error.value)


def test_a_web_server_has_folders(site: str, folder: Path) -> None:
    local = files(folder / "rows")
    found = files(f"{site}/rows")
    assert found.names == local.names == ["x", "month"] and len(found.found) == FILES
    np.testing.assert_array_equal(mean(found), mean(local))
    some = files(f"{site}/rows/month=1/part-*1.parquet", pattern=True)
    right = files(str(folder / "rows" / "month=1" / "part-*1.parquet"), pattern=True)
    assert [str(one.path).rpartition("/")[2] for one in some.found] == [one.path.name for one in right.found]
    np.testing.assert_array_equal(mean(some), mean(right))


def test_a_server_that_is_away_shows_no_address() -> None:
    pytest.importorskip("aiohttp")
    with pytest.raises(InvalidData) as error:
        mean("http://user:secret@127.0.0.1:1/rows?token=secret")
    assert "secret" not in str(error.value)


def test_a_bucket_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "DEFAULT_REGION": "us-east-1"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        client = pytest.importorskip("boto3").client("s3", endpoint_url=f"http://{host}:{port}")
        client.create_bucket(Bucket="bucket")
        for path in folder.rglob("*.*"):
            client.upload_file(str(path), "bucket", str(path.relative_to(folder)))
        client.put_object(Bucket="bucket", Key="rows/_SUCCESS", Body=b"")
        found, local = files("s3://bucket/rows"), files(folder / "rows")
        assert found.names == local.names and len(found.found) == FILES
        np.testing.assert_array_equal(mean(found), mean(local))
        some = files("s3://bucket/rows/month=*/part-00*.parquet", pattern=True)
        assert len(some.found) == 10
        np.testing.assert_array_equal(mean("s3://bucket/links.csv"), mean(folder / "links.csv"))
        with pytest.raises(InvalidData, match=r"none\.parquet"):
            mean("s3://elsewhere/none.parquet")
    finally:
        server.stop()


@pytest.fixture
def no_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = builtins.__import__

    def without(name: str, *given: Any) -> Any:
        if name.partition(".")[0] == "fsspec":
            raise ImportError(name)
        return taken(name, *given)

    monkeypatch.setattr(builtins, "__import__", without)


def has_httpfs() -> bool:
    installed = "SELECT installed FROM duckdb_extensions() WHERE extension_name = 'httpfs'"
    found = duckdb.connect().execute(installed).fetchone()
    return bool(found and found[0])


@pytest.mark.usefixtures("no_fsspec")
@pytest.mark.skipif(not has_httpfs(), reason="DuckDB's httpfs is not installed: INSTALL httpfs")
def test_httpfs_reads_a_file(folder: Path) -> None:
    with served(Parts, folder) as site:
        one = "rows/month=0/part-000.parquet"
        for query in ("", "?token=secret"):
            np.testing.assert_array_equal(mean(f"{site}/{one}{query}"), mean(folder / one))
        with pytest.raises(InvalidData) as error:
            mean(f"{site}/none.parquet?token=secret")
        assert "secret" not in str(error.value)


@pytest.mark.usefixtures("no_fsspec")
@pytest.mark.parametrize("httpfs", [False, True])
def test_without_fsspec_httpfs_reads_a_file_or_the_error_says_what_would(
    httpfs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpstats.data.duckdb_rows._has_httpfs", lambda: httpfs)
    if not httpfs:
        with pytest.raises(InvalidData, match=r"duckdb\.sql\(\"FROM 'https://\.\.\.'\"\)"):
            files("https://host/rows.parquet")
        return
    address = Address.parse("https://host/rows.parquet?token=secret")
    assert (address.name, address.suffix) == ("rows.parquet", ".parquet")
    for folder_or_text in ("https://host/rows", "https://host/rows.csv"):
        with pytest.raises(InvalidData, match="fsspec"):
            files(folder_or_text)
