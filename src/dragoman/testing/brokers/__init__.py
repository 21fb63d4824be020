"""One suite of tests for every broker adapter.

An adapter's test file is a harness and an empty class:

    class TestKafka(BrokerSuite):
        @pytest.fixture
        def harness(self, kafka):
            return Harness(kafka.url, restart=kafka.kill_and_restart, behind=kafka.proxy)

What a broker cannot do, by its ``Capabilities``, is skipped with the reason. Times are never measured, only
waited for, up to ``Harness.patience`` seconds.
"""

from dragoman.testing.brokers.channels import ChannelTests
from dragoman.testing.brokers.crashes import CrashTests
from dragoman.testing.brokers.delivery import DeliveryTests
from dragoman.testing.brokers.failures import FailureTests
from dragoman.testing.brokers.groups import GroupTests
from dragoman.testing.brokers.history import HistoryTests
from dragoman.testing.brokers.network import NetworkTests
from dragoman.testing.brokers.ordering import OrderingTests
from dragoman.testing.brokers.rig import Harness, Rig
from dragoman.testing.brokers.sharing import SharingTests

__all__ = ["BrokerSuite", "Harness", "Rig"]


class BrokerSuite(
    DeliveryTests,
    OrderingTests,
    GroupTests,
    SharingTests,
    FailureTests,
    CrashTests,
    NetworkTests,
    ChannelTests,
    HistoryTests,
):
    """All of it. A subclass gives the fixture ``harness``."""
