"""Count wrong passwords, and turn away clients who guess for a while, whether or not the name exists.

So many wrong passwords a minute are allowed for one name from one address. Guessing the passwords of many names from
one address, or of one name from many addresses, ends at a multiple of that. An address from which a name has logged in
before is not turned away for what others do: nobody locks a user out by guessing from elsewhere.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sqlanon.errors import Refused

PERIOD = 60.0  # seconds
ALL_NAMES = 5  # times as many for all names of one address, and for all addresses of one name
REMEMBERED = 10_000  # names and addresses: those that were tried longest ago are forgotten first

Key = tuple[str, str]  # address and name; one of them is empty where it stands for all


@dataclass
class LoginThrottle:
    limit: Callable[[], int]  # wrong passwords a minute, of one name from one address
    clock: Callable[[], float] = time.monotonic
    _tried: OrderedDict[Key, deque[float]] = field(default_factory=OrderedDict)
    _welcome: OrderedDict[Key, None] = field(default_factory=OrderedDict)

    def begin(self, address: str, name: str) -> None:
        """Count a try as a wrong one before its password is looked at, or refuse it.

        >>> throttle = LoginThrottle(lambda: 2)
        >>> throttle.begin("10.0.0.9", "ann"), throttle.begin("10.0.0.9", "ann")
        (None, None)
        >>> throttle.begin("10.0.0.9", "ann")
        Traceback (most recent call last):
        ...
        sqlanon.errors.Refused: too many wrong passwords
          hint: wait a minute
        """
        now = self.clock()
        for key, most in self._limits(address, name):
            tried = self._tried.get(key)
            while tried and tried[0] <= now - PERIOD:
                tried.popleft()
            if tried and len(tried) >= most:
                self._tried.move_to_end(key)
                raise Refused("too many wrong passwords", sqlstate="28000", hint="wait a minute")
        for key, _ in self._limits(address, name):
            self._tried.setdefault(key, deque()).append(now)
            self._tried.move_to_end(key)
        while len(self._tried) > REMEMBERED:
            self._tried.popitem(last=False)

    def succeed(self, address: str, name: str) -> None:
        """The password was right: the try does not count, and the address is known for this name."""
        for key, _ in self._limits(address, name):
            if tried := self._tried.get(key):
                tried.pop()
                if not tried:
                    del self._tried[key]
        self._welcome[address, name] = None
        self._welcome.move_to_end((address, name))
        while len(self._welcome) > REMEMBERED:
            self._welcome.popitem(last=False)

    def _limits(self, address: str, name: str) -> Iterator[tuple[Key, int]]:
        most = self.limit()
        yield (address, name), most
        yield (address, ""), ALL_NAMES * most
        if (address, name) not in self._welcome:
            yield ("", name), ALL_NAMES * most
