"""The processor time that other programs of this machine take."""

import os
import time

# More than this share of a core disturbs a measurement.
SHARE_MAX = 0.25


class NotMeasured(Exception):
    """Says why a check, otherwise without a difference, could not measure what it is about."""


class OtherLoad:
    """Measures the time of all processes but this one and those that it has started, from its creation on."""

    def __init__(self):
        self.begun, self.start = time.monotonic(), seconds_of_others()

    def disturbs(self):
        """Returns whether other programs have used so much time that what was measured does not count."""
        return seconds_of_others() - self.start > SHARE_MAX * (time.monotonic() - self.begun)


def seconds_of_others():
    """Returns the processor seconds of all other programs since the machine was started."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, interrupts, soft, steal = map(int, file.readline().split()[1:9])
    ticks = user + nice + system + interrupts + soft + steal
    return (ticks - ticks_of_descendants()) / os.sysconf("SC_CLK_TCK")


def ticks_of_descendants():
    """Returns the ticks of this process and its descendants, those that have ended included."""
    parents, used = {}, {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{int(name)}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except (ValueError, OSError):
            continue
        parents[int(name)] = int(fields[1])
        used[int(name)] = sum(map(int, fields[11:15]))
    total = 0
    for process, ticks in used.items():
        ancestor = process
        while ancestor not in (0, os.getpid()):
            ancestor = parents.get(ancestor, 0)
        if ancestor:
            total += ticks
    return total
