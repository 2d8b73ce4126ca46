"""What the peers' jobs call: nothing is ever run of it, it only has to be importable."""


def nothing(number: int) -> None: ...
