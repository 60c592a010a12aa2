"""The ledger: nothing lost, nothing twice, never overspent, and a clear error when it cannot be kept."""

import contextlib
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path

import dask
import joblib
import numpy as np
import pytest

from dpstats.errors import BudgetExceeded, InvalidParameter, LedgerError
from dpstats.means import ClippedMean
from dpstats.mechanisms import LaplaceMechanism
from dpstats.privacy import Neighbors, PrivacyBudget, PrivacyGuarantee
from dpstats.privacy.events import DiscreteLaplace, Pure
from dpstats.privacy.ledger import planned_numbers

WORKER = Path(__file__).with_name("charging_worker.py")
ROWS = np.zeros((10, 1))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


def test_charges_survive_the_process_that_made_them(path):
    PrivacyBudget(1.0, 1e-6, ledger=path).charge(PrivacyGuarantee(0.25, 1e-7), label="age")
    again = PrivacyBudget(1.0, 1e-6, ledger=path)
    assert again.spent == PrivacyGuarantee(0.25, 1e-7)
    assert [(entry.label, entry.guarantee) for entry in again.history()] == [("age", PrivacyGuarantee(0.25, 1e-7))]
    opened = PrivacyBudget.open(path)
    opened.charge(PrivacyGuarantee(0.75))
    with pytest.raises(BudgetExceeded):
        again.charge(PrivacyGuarantee(0.001))


def test_another_budget_cannot_use_the_ledger(path):
    PrivacyBudget(1.0, 1e-6, ledger=path)
    for other in ({"epsilon": 2.0, "delta": 1e-6}, {"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6, "method": "gdp"}):
        with pytest.raises(LedgerError, match="is the ledger of another budget"):
            PrivacyBudget(**other, ledger=path)
    with pytest.raises(LedgerError, match="is the ledger of another budget"):
        PrivacyBudget(1.0, 1e-6, neighbors=Neighbors.ADD_OR_REMOVE_ONE, ledger=path)


def test_decimals_are_exact_across_processes(path):
    for _ in range(10):
        PrivacyBudget(1.0, ledger=path).charge(PrivacyGuarantee(0.1))
    assert PrivacyBudget.open(path).remaining == PrivacyGuarantee(0.0)
    with pytest.raises(BudgetExceeded):
        PrivacyBudget.open(path).charge(PrivacyGuarantee(1e-12))


def test_pickles_as_its_path(path):
    budget = PrivacyBudget(1.0, ledger=path)
    again = pickle.loads(pickle.dumps(ClippedMean(clip=1.0, epsilon=0.5, budget=budget))).budget
    again.charge(PrivacyGuarantee(0.5))
    assert budget.spent == PrivacyGuarantee(0.5)
    assert again.ledger == budget.ledger == str(path)


def charge_in_another_process(budget):
    try:
        ClippedMean(clip=1.0, epsilon=0.1, budget=budget).fit(ROWS)
    except BudgetExceeded:
        return 0
    return 1


def with_processes(budget, count):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        return sum(pool.map(charge_in_another_process, [budget] * count))


def with_joblib(budget, count):
    return sum(joblib.Parallel(2)(joblib.delayed(charge_in_another_process)(budget) for _ in range(count)))


def with_dask(budget, count):
    tasks = [dask.delayed(charge_in_another_process)(budget) for _ in range(count)]
    return sum(dask.compute(*tasks, scheduler="processes", num_workers=2))


def test_estimators_under_three_schedulers_share_it(path):
    budget = PrivacyBudget(1.0, ledger=path)
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda run: run(budget, 6), (with_processes, with_joblib, with_dask)))
    assert sum(made) == 10, made
    assert budget.remaining == PrivacyGuarantee(0.0)
    assert [entry.label for entry in budget.history()] == ["ClippedMean"] * 10


def test_threads_share_it(path):
    budget = PrivacyBudget(2.0, ledger=path)
    made = []

    def spend():
        for _ in range(5):
            try:
                budget.charge(PrivacyGuarantee(0.1))
                made.append(1)
            except BudgetExceeded:
                pass

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == len(budget.history()) == 20


def killed(path, tmp_path, *, kills, when):
    PrivacyBudget(0.5, ledger=path)
    notes = tmp_path / "acknowledged"
    subprocess.run([sys.executable, str(WORKER), str(path), str(notes), str(kills), "4", when], check=True, timeout=300)
    acknowledged = notes.read_text().split()
    budget = PrivacyBudget.open(path)
    return acknowledged, Counter(entry.label for entry in budget.history()), budget


def test_kills_lose_nothing_and_count_nothing_twice(path, tmp_path):
    # 300 workers charge one ledger, four at a time, and each is killed within 60 ms.
    acknowledged, kept, budget = killed(path, tmp_path, kills=300, when="after")
    assert len(acknowledged) > 50
    assert set(acknowledged) <= set(kept)
    assert set(kept.values()) == {1}
    # A worker killed between the charge and its note leaves a charge without one, never the reverse.
    assert len(kept) - len(acknowledged) <= 300
    assert Fraction(repr(budget.spent.epsilon)) == Fraction(len(kept), 1000) <= Fraction(1, 2)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_the_kill_test_can_fail(path, tmp_path):
    # Control: workers that note a charge before it is made lose some of what they noted.
    acknowledged, kept, _ = killed(path, tmp_path, kills=100, when="before")
    assert set(acknowledged) - set(kept)


def test_starting_a_charging_process_loads_the_standard_library_only(path):
    code = (
        "from dpstats.privacy import PrivacyBudget, PrivacyGuarantee\n"
        f"PrivacyBudget(1.0, ledger={str(path)!r}).charge(PrivacyGuarantee(0.1))\n"
        "import sys\n"
        "print([name for name in ('numpy', 'scipy', 'sklearn', 'opendp') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_nothing_is_released_when_the_charge_cannot_be_kept(path, monkeypatch):
    budget = PrivacyBudget(1.0, ledger=path)
    drawn = []
    monkeypatch.setattr("dpstats.release.noise.ExactNoise.laplace", lambda *args: drawn.append(args))
    path.write_bytes(b"not a ledger at all, but some other file" * 100)
    for release in (
        lambda: ClippedMean(clip=1.0, budget=budget).fit(ROWS),
        lambda: LaplaceMechanism(1.0, 1.0, budget=budget).release(1.0),
    ):
        with pytest.raises(LedgerError, match="is not a ledger, or it is corrupt"):
            release()
    assert drawn == []


def test_a_corrupt_page_is_noticed(path):
    budget = PrivacyBudget(1.0, ledger=path)
    for _ in range(3):
        budget.charge(PrivacyGuarantee(0.1))
    content = bytearray(path.read_bytes())
    content[4096:8192] = os.urandom(4096)
    path.write_bytes(bytes(content))
    with pytest.raises(LedgerError, match=r"corrupt|nothing was charged"):
        budget.charge(PrivacyGuarantee(0.1))


def charge_many(budget, times):
    for _ in range(times):
        budget.charge(PrivacyGuarantee(0.001), label="x" * 1000)


def test_a_full_disk_charges_nothing(path, monkeypatch):
    budget = PrivacyBudget(10.0, ledger=path)
    connect = sqlite3.connect

    def on_a_full_disk(*args, **options):
        connection = connect(*args, **options)
        connection.execute("PRAGMA max_page_count = 1")  # no page more than the file has
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", on_a_full_disk)
        with pytest.raises(LedgerError, match="the disk is full; nothing was charged"):
            charge_many(budget, 1000)
    before = len(budget.history())
    assert budget.spent == PrivacyGuarantee(float(Fraction(before, 1000)))
    budget.charge(PrivacyGuarantee(0.001))
    assert len(budget.history()) == before + 1


def test_a_charge_that_breaks_off_between_its_two_writes_leaves_nothing(path):
    # A history with a charge that the totals do not have would be spent again.
    budget = PrivacyBudget(1.0, ledger=path)
    budget.charge(PrivacyGuarantee(0.25), label="kept")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TRIGGER broken BEFORE UPDATE ON budget BEGIN SELECT RAISE(ABORT, 'broken'); END")
    with pytest.raises(LedgerError, match="nothing was charged"):
        budget.charge(PrivacyGuarantee(0.5), label="lost")
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER broken")
    assert [entry.label for entry in budget.history()] == ["kept"]
    assert budget.spent == PrivacyGuarantee(0.25)


def test_a_limited_file_size_charges_nothing(path):
    # The operating system refuses to let the file grow, in a process of its own.
    code = f"""
import resource, signal
from dpstats.errors import LedgerError
from dpstats.privacy import PrivacyBudget, PrivacyGuarantee
budget = PrivacyBudget(10.0, ledger={str(path)!r})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (12288, 12288))
made = 0
try:
    while made < 100:
        budget.charge(PrivacyGuarantee(0.001), label="x" * 1000)
        made += 1
except LedgerError as error:
    print(made, "nothing was charged" in str(error))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    made, clear = done.stdout.split()
    assert clear == "True"
    assert len(PrivacyBudget.open(path).history()) == int(made) < 100


def test_a_read_only_ledger_charges_nothing(path, monkeypatch):
    budget = PrivacyBudget(1.0, ledger=path)
    connect = sqlite3.connect
    # Permissions do not stop every user: open the file as a read-only one.
    monkeypatch.setattr(
        sqlite3, "connect", lambda name, **options: connect(name.replace("mode=rw", "mode=ro"), **options)
    )
    with pytest.raises(LedgerError, match="read-only"):
        budget.charge(PrivacyGuarantee(0.1))
    assert budget.history() == ()


def test_a_newer_ledger_and_other_files_are_refused(path, tmp_path):
    PrivacyBudget(1.0, ledger=path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    with pytest.raises(LedgerError, match="written by a newer dpstats"):
        PrivacyBudget(1.0, ledger=path)
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(LedgerError, match="must be a dpstats ledger"):
        PrivacyBudget(1.0, ledger=other)
    with pytest.raises(LedgerError, match="the ledger does not exist"):
        PrivacyBudget.open(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(LedgerError, match="cannot be opened or created"):
        PrivacyBudget(1.0, ledger=tmp_path / "no" / "folder" / "x.db")


def test_a_ledger_that_is_gone_is_not_made_again(path):
    budget = PrivacyBudget(1.0, ledger=path)
    budget.charge(PrivacyGuarantee(1.0))
    pickled = pickle.dumps(budget)
    path.unlink()
    for use in (lambda: budget.charge(PrivacyGuarantee(0.1)), lambda: budget.spent, lambda: pickle.loads(pickled)):
        with pytest.raises(LedgerError, match=r"cannot be opened|the ledger does not exist"):
            use()
    assert not path.exists()


def test_another_file_in_its_place_is_noticed(path, tmp_path):
    budget = PrivacyBudget(1.0, ledger=path)
    budget.charge(PrivacyGuarantee(1.0))
    pickled = pickle.dumps(budget)
    path.unlink()
    PrivacyBudget(1.0, ledger=path)  # the same budget to look at, but a new ledger
    for use in (lambda: budget.charge(PrivacyGuarantee(0.1)), lambda: budget.spent, lambda: pickle.loads(pickled)):
        with pytest.raises(LedgerError, match="another file has taken its place"):
            use()
    path.write_bytes(b"")
    with pytest.raises(LedgerError, match="must be a dpstats ledger"):
        PrivacyBudget(1.0, ledger=path)


def test_a_ledger_of_nonsense_is_corrupt(path):
    for column, value in (("first", "-5"), ("first", "much"), ("parameters", "{"), ("parameters", "[]")):
        budget = PrivacyBudget(1.0, ledger=path)
        connection = sqlite3.connect(path)
        connection.execute(f"UPDATE budget SET {column} = ?", (value,))
        connection.commit()
        connection.close()
        for use in (lambda: budget.charge(PrivacyGuarantee(0.1)), lambda: PrivacyBudget.open(path)):  # noqa: B023
            with pytest.raises(LedgerError, match=r"corrupt|taken its place"):
                use()
        path.unlink()


@pytest.mark.parametrize("ledger", [0, "a\0b", 1.5, "a\udcff"])
def test_a_ledger_is_a_path(ledger):
    with pytest.raises(InvalidParameter, match="ledger must"):
        PrivacyBudget(1.0, ledger=ledger)


def test_labels_of_any_kind_are_kept(path):
    budget = PrivacyBudget(1.0, -0.0, ledger=path)
    for label in ("a\nb", "x\ud800y", "z\0", "ü" * 10_000):
        budget.charge(PrivacyGuarantee(0.1), label=label)
    assert len(PrivacyBudget(1.0, 0.0, ledger=path).history()) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_forked_while_others_charge_can_charge(path):
    budget = PrivacyBudget(1000.0, ledger=path)
    stop = threading.Event()

    def spend():
        while not stop.is_set():
            budget.charge(PrivacyGuarantee(0.001))

    threads = [threading.Thread(target=spend) for _ in range(3)]
    for thread in threads:
        thread.start()
    statuses = []
    for _ in range(10):
        child = os.fork()
        if child == 0:
            try:
                budget.charge(PrivacyGuarantee(0.001), label="child")
                os._exit(0)
            except BaseException:
                os._exit(1)
        statuses.append(os.waitpid(child, 0)[1])
    stop.set()
    for thread in threads:
        thread.join()
    assert statuses == [0] * 10
    assert Counter(entry.label for entry in budget.history())["child"] == 10


def test_planned_budgets_are_opened_with_their_plan(path):
    plan = ClippedMean(epsilon=0.5, delta=1e-6, clip=1.0).plan(10, 1)
    PrivacyBudget(1.0, 1e-5, method="pld", planned=[plan, plan], ledger=path).charge(plan)
    with pytest.raises(InvalidParameter, match="planned must"):
        PrivacyBudget.open(path)
    again = PrivacyBudget(1.0, 1e-5, method="pld", planned=[plan, plan], ledger=path)
    again.charge(plan)
    with pytest.raises(InvalidParameter, match="2 of 2 are made"):
        again.charge(plan)


# Durability: what a kill cannot show, because the operating system outlives it


def on_every_connection(monkeypatch, look):
    """Call ``look(connection)`` before every statement that commits."""
    connect = sqlite3.connect

    class Watched(sqlite3.Connection):
        def execute(self, statement, *parameters):
            if statement == "COMMIT":
                look(super())
            return super().execute(statement, *parameters)

    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, **options, factory=Watched))


def test_a_charge_is_synced_to_disk_before_it_is_acknowledged(path, monkeypatch):
    budget, seen = PrivacyBudget(1.0, ledger=path), []

    def look(connection):
        seen.append(
            [
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("synchronous", "fullfsync", "journal_mode")
            ]
        )

    on_every_connection(monkeypatch, look)
    budget.charge(PrivacyGuarantee(0.1))
    PrivacyBudget(1.0, ledger=path.with_name("new.db"))
    # EXTRA is 3: FULL, and the folder too once the journal is removed; a journal that is removed is a commit.
    assert len(seen) >= 2 and all(row == [3, 1, "delete"] for row in seen)


def test_the_check_of_pragmas_can_fail(path, monkeypatch):
    # Power control: with the order to sync turned into its opposite the same look sees a 0.
    budget, seen, connect = PrivacyBudget(1.0, ledger=path), [], sqlite3.connect

    class Careless(sqlite3.Connection):
        def execute(self, statement, *parameters):
            if statement == "COMMIT":
                seen.append(super().execute("PRAGMA synchronous").fetchone()[0])
            return super().execute(statement.replace("synchronous = EXTRA", "synchronous = OFF"), *parameters)

    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, **options, factory=Careless))
    budget.charge(PrivacyGuarantee(0.1))
    assert seen == [0]


def test_a_new_ledger_is_a_name_that_is_on_disk(path, monkeypatch):
    done, link, sync = [], os.link, os.fsync

    def watched_link(*args, **options):
        link(*args, **options)
        done.append("linked")

    def watched_sync(handle):
        sync(handle)
        if os.path.samestat(os.fstat(handle), os.stat(path.parent)):
            done.append("folder synced")

    monkeypatch.setattr(os, "link", watched_link)
    monkeypatch.setattr(os, "fsync", watched_sync)
    budget = PrivacyBudget(1.0, ledger=path)
    assert done == ["linked", "folder synced"]
    budget.charge(PrivacyGuarantee(0.1))
    assert done == ["linked", "folder synced"]  # once: SQLite syncs the rest itself


def test_a_system_that_cannot_sync_folders_has_ledgers(path, monkeypatch):
    opened = os.open

    def refuse(name, flags, *rest, **options):
        if str(name) == str(path.parent):
            raise OSError(22, "Invalid argument")
        return opened(name, flags, *rest, **options)

    monkeypatch.setattr(os, "open", refuse)
    PrivacyBudget(1.0, ledger=path).charge(PrivacyGuarantee(0.1))
    assert PrivacyBudget(1.0, ledger=path).spent.epsilon == 0.1


def test_a_charge_is_seen_by_another_connection_when_it_returns(path):
    budget = PrivacyBudget(1.0, ledger=path)
    other = sqlite3.connect(path)  # open before, as another process would have it
    for number in range(1, 4):
        budget.charge(PrivacyGuarantee(0.25), label=f"charge {number}")
        rows = other.execute("SELECT label, epsilon FROM charges ORDER BY id").fetchall()
        assert rows == [(f"charge {i}", "0.25") for i in range(1, number + 1)]
        assert other.execute("SELECT first FROM budget").fetchone() == (str(Fraction(number, 4)),)
    other.close()


def test_a_new_ledger_is_seen_by_another_connection(path):
    PrivacyBudget(1.0, ledger=path)
    other = sqlite3.connect(path)
    assert other.execute("SELECT first, second FROM budget").fetchall() == [("0", "0")]
    assert other.execute("SELECT count(*) FROM charges").fetchone() == (0,)
    other.close()


# An older copy put back


def test_a_ledger_that_was_put_back_is_refused(path, tmp_path):
    budget = PrivacyBudget(1.0, ledger=path)
    budget.charge(PrivacyGuarantee(0.4), label="first")
    shutil.copy(path, tmp_path / "copy.db")
    budget.charge(PrivacyGuarantee(0.6), label="second")
    shutil.copy(tmp_path / "copy.db", path)
    for use in (
        lambda: budget.charge(PrivacyGuarantee(0.6)),
        lambda: budget.check(PrivacyGuarantee(0.1)),
        lambda: budget.spent,
        lambda: budget.remaining,
        lambda: budget.history(),
        lambda: PrivacyBudget.open(path),
        lambda: PrivacyBudget(1.0, ledger=path),
    ):
        with pytest.raises(LedgerError, match=r"has lost charges: .* 2 charges in it, and 1 remain"):
            use()
    assert "spent=unknown" in repr(budget) and "has lost charges" in repr(budget)


def test_a_ledger_that_was_emptied_or_rewritten_is_refused(path, tmp_path):
    budget = PrivacyBudget(1.0, ledger=path)
    shutil.copy(path, tmp_path / "empty.db")
    budget.charge(PrivacyGuarantee(0.4))
    shutil.copy(path, tmp_path / "charged.db")
    shutil.copy(tmp_path / "empty.db", path)
    with pytest.raises(LedgerError, match="has lost charges"):
        budget.charge(PrivacyGuarantee(0.4))
    # Charges put back from the copy by another process, as many as there were and more: not the same ones.
    code = (
        "from dpstats.privacy import PrivacyBudget, PrivacyGuarantee\n"
        f"budget = PrivacyBudget.open({str(path)!r})\n"
        "for _ in range(3): budget.charge(PrivacyGuarantee(0.3))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(LedgerError, match="some are gone"):
        budget.charge(PrivacyGuarantee(0.01))
    # Totals that went down under the charges that made them.
    shutil.copy(tmp_path / "charged.db", path)
    assert budget.spent == PrivacyGuarantee(0.4)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE budget SET first = '1/10'")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="has lost charges"):
        budget.charge(PrivacyGuarantee(0.4))


@pytest.mark.parametrize("column", ["first", "second"])
def test_each_total_that_went_down_is_noticed(path, column):
    budget = PrivacyBudget(1.0, 1e-6, ledger=path)
    budget.charge(PrivacyGuarantee(0.25, 1e-7))
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        (total,) = connection.execute(f"SELECT {column} FROM budget").fetchone()
        connection.execute(f"UPDATE budget SET {column} = '{Fraction(total) * Fraction(9, 10)}'")
    with pytest.raises(LedgerError, match="has lost charges"):
        budget.charge(PrivacyGuarantee(0.1))


@pytest.mark.parametrize("table", ["budget", "charges"])
def test_a_ledger_without_a_table_is_corrupt(path, table):
    budget = PrivacyBudget(1.0, ledger=path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"DROP TABLE {table}")
    with pytest.raises(LedgerError, match="the file is not a ledger, or it is corrupt"):
        budget.charge(PrivacyGuarantee(0.1))


def test_charges_of_other_processes_are_no_older_copy(path):
    budget = PrivacyBudget(1.0, ledger=path)
    budget.charge(PrivacyGuarantee(0.25))
    code = (
        "from dpstats.privacy import PrivacyBudget, PrivacyGuarantee\n"
        f"PrivacyBudget.open({str(path)!r}).charge(PrivacyGuarantee(0.25))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    budget.charge(PrivacyGuarantee(0.5))
    assert budget.remaining == PrivacyGuarantee(0.0)


def test_a_moved_ledger_is_still_the_same(path, tmp_path):
    budget = PrivacyBudget(1.0, ledger=path)
    budget.charge(PrivacyGuarantee(0.25))
    moved = tmp_path / "moved.db"
    shutil.move(path, moved)
    assert PrivacyBudget.open(moved).spent == PrivacyGuarantee(0.25)


# A budget shows itself whatever has become of its ledger


def test_a_budget_whose_ledger_is_gone_shows_what_is_known(path):
    budget = PrivacyBudget(1.0, 1e-6, ledger=path)
    path.unlink()
    shown = repr(budget)
    assert shown.startswith("PrivacyBudget(epsilon=1, delta=1e-06, method='basic', spent=unknown: ")
    assert str(path) in shown
    path.write_bytes(b"not a ledger at all, but some other file" * 100)
    assert "spent=unknown" in repr(budget) and "corrupt" in repr(budget)
    assert repr(PrivacyBudget.__new__(PrivacyBudget)) == "PrivacyBudget(not made)"


def test_an_estimator_shows_a_budget_whose_ledger_is_gone(path):
    estimator = ClippedMean(clip=1.0, budget=PrivacyBudget(1.0, ledger=path))
    path.unlink()
    assert "spent=unknown" in repr(estimator)


# Planned charges kept by an earlier version: the same plan to a relative 1e-12, and never a dearer one


def rewrite_planned(path, change):
    connection = sqlite3.connect(path)
    (text,) = connection.execute("SELECT parameters FROM budget").fetchone()
    connection.execute("UPDATE budget SET parameters = ?", (change(text),))
    connection.commit()
    connection.close()


def planned_budget(path, *events, epsilon=1.0):
    return PrivacyBudget(epsilon, 1e-6, method="pld", planned=events, ledger=path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epsilon=0.3", "epsilon=0.30000000000000004"),
        ("epsilon=0.3", "epsilon=0.29999999999999993"),
        ("epsilon=0.3", "epsilon=np.float64(0.3)"),
        ("scale=7.0", "scale=7.000000000000002"),
        ("sensitivity=2", "sensitivity=np.int64(2)"),
    ],
)
def test_a_planned_ledger_of_an_earlier_version_opens(path, old, new):
    events = Pure(0.3), DiscreteLaplace(2, 7.0)
    planned_budget(path, *events).charge(events[0])
    rewrite_planned(path, lambda text: text.replace(old, new))
    again = planned_budget(path, *events)
    again.charge(events[1])
    assert len(again.history()) == 2
    pickle.loads(pickle.dumps(again))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epsilon=0.3", "epsilon=0.300000000001"),  # a relative 3e-12
        ("epsilon=0.3", "epsilon=0.2999999999"),
        ("epsilon=0.3", "epsilon=0"),
        ("sensitivity=2", "sensitivity=3"),
        ("Pure", "BoundedRange"),
        ("REPLACE_ONE", "ADD_OR_REMOVE_ONE"),
    ],
)
def test_another_plan_is_another_budget(path, old, new):
    planned_budget(path, Pure(0.3), DiscreteLaplace(2, 7.0))
    rewrite_planned(path, lambda text: text.replace(old, new))
    with pytest.raises(LedgerError, match="is the ledger of another budget"):
        planned_budget(path, Pure(0.3), DiscreteLaplace(2, 7.0))


@pytest.mark.parametrize("dearer", [0, 1])
def test_planned_charges_are_never_dearer_than_what_was_certified(path, dearer):
    # .5 and .5 fill a pure budget of 1. One charge of the ledger was dearer by a last digit, and the new other one is
    # dearer than the ledger's: together they cost more than 1.
    def open_pure():
        return PrivacyBudget(1.0, 0.0, method="pld", planned=[Pure(0.5), Pure(0.5)], ledger=path)

    open_pure().charge(Pure(0.5))
    numbers = ["0.5000000000000001", "0.4999999999999999"]
    first, second = numbers if dearer == 0 else numbers[::-1]

    def set_numbers(text):
        before, middle, after = text.split("epsilon=0.5)")
        return f"{before}epsilon={first}){middle}epsilon={second}){after}"

    rewrite_planned(path, set_numbers)
    with pytest.raises(LedgerError, match="may cost more than the budget"):
        open_pure()
    # Where the new plan is nowhere dearer than the ledger's, that is the plan that was certified.
    rewrite_planned(path, lambda text: text.replace("epsilon=0.4999999999999999)", "epsilon=0.5)"))
    open_pure().charge(Pure(0.5))
    # And a charge is the plan's own, to the last digit.
    other = PrivacyBudget(1.0, 1e-6, method="pld", planned=[Pure(0.5)])
    with pytest.raises(InvalidParameter, match="pays for the planned releases"):
        other.charge(Pure(0.5000000000000001))


def test_numbers_in_planned_charges():
    words, numbers = planned_numbers("(Pure(epsilon=-1.5e-3), Gaussian(mu=2, total_variation=1e+20),)")
    assert numbers == [Fraction("-0.0015"), 2, 10**20]
    assert words == "(Pure(epsilon=#), Gaussian(mu=#, total_variation=#),)"


@pytest.mark.parametrize("how", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_ledger_that_is_held_is_waited_for_and_it_is_said(path, how, monkeypatch, caplog) -> None:
    budget = PrivacyBudget(1.0, ledger=path)
    monkeypatch.setattr("dpstats.privacy.ledger._SILENT_SECONDS", 0.05)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute(f"BEGIN {how}")
    freed = threading.Timer(0.3, other.execute, ["ROLLBACK"])
    freed.start()
    if how == "EXCLUSIVE":
        assert budget.remaining.epsilon == 1.0  # a reading waits, too
    else:
        budget.charge(PrivacyGuarantee(0.25), label="late")
    freed.join()
    other.close()
    (record,) = caplog.records
    assert record.name == "dpstats.privacy.ledger" and record.levelname == "WARNING"
    assert record.getMessage() == f"{path}: waiting for another process, which holds the ledger"
    budget.charge(PrivacyGuarantee(0.25))
    assert len(caplog.records) == 1 and budget.history()[-1].guarantee.epsilon == 0.25


def test_only_a_ledger_that_is_held_is_waited_for(path, monkeypatch, caplog) -> None:
    budget = PrivacyBudget(1.0, ledger=path)
    tries = []

    def fail(connection, begin):
        tries.append(begin)
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr("dpstats.privacy.ledger._take_lock", fail)
        with pytest.raises(LedgerError, match="disk I/O error; nothing was charged"):
            budget.charge(PrivacyGuarantee(0.25))
    assert tries == ["BEGIN IMMEDIATE"] and not caplog.records
    assert budget.history() == ()


def test_a_ledger_is_opened_and_read_while_another_process_charges(path, monkeypatch, caplog) -> None:
    PrivacyBudget(1.0, ledger=path).charge(PrivacyGuarantee(0.25))
    monkeypatch.setattr("dpstats.privacy.ledger._SILENT_SECONDS", 0.05)
    monkeypatch.setattr("dpstats.privacy.ledger._WAIT_SECONDS", 0.1)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # the lock of a charge that is not yet committed
        again = PrivacyBudget(1.0, ledger=path)
        assert again.remaining.epsilon == 0.75 and len(again.history()) == 1
        assert PrivacyBudget.open(path).spent.epsilon == 0.25
    assert not caplog.records


def test_a_commit_waits_longer_for_readers_than_the_silent_time(path, monkeypatch) -> None:
    budget = PrivacyBudget(1.0, ledger=path)
    monkeypatch.setattr("dpstats.privacy.ledger._SILENT_SECONDS", 0.05)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN")
    other.execute("SELECT * FROM charges").fetchall()  # the lock of a reader: others may begin, but not commit
    freed = threading.Timer(0.25, other.execute, ["ROLLBACK"])
    freed.start()
    budget.charge(PrivacyGuarantee(0.25))
    freed.join()
    other.close()
    assert budget.remaining.epsilon == 0.75


def test_a_label_is_kept_by_pickles(path) -> None:
    budget = pickle.loads(pickle.dumps(PrivacyBudget(1.0, ledger=path).labelled("a.csv")))
    budget.charge(PrivacyGuarantee(0.5), label="mean")
    assert [entry.label for entry in PrivacyBudget.open(path).history()] == ["a.csv: mean"]
