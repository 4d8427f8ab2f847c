"""``python -m collectrace.align``: short for ``python -m collectrace align``."""

if __name__ == "__main__":
    from collectrace import quiet

    quiet.until_somebody_answers()
    from collectrace.cli import console

    console("align")
