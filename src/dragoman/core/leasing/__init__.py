"""Groups for brokers that are partitioned logs and have none of their own that keep order.

A group's members lease partitions from each other. All that a group knows lies in small records in the
broker, each changed by compare-and-set. Whoever takes a partition over writes its record first, so that its
former owner can neither acknowledge nor deliver any more: no clock has to be trusted for that.
"""

from dragoman.core.leasing.chores import Chores
from dragoman.core.leasing.joining import Members
from dragoman.core.leasing.membership import ROSTER, Membership
from dragoman.core.leasing.receiver import LeasedReceiver
from dragoman.core.leasing.record import ShareRecord, committed_in
from dragoman.core.leasing.records import Change, Place, Records, Source, Stored
from dragoman.core.leasing.roster import Roster

__all__ = [
    "ROSTER",
    "Change",
    "Chores",
    "LeasedReceiver",
    "Members",
    "Membership",
    "Place",
    "Records",
    "Roster",
    "ShareRecord",
    "Source",
    "Stored",
    "committed_in",
]
