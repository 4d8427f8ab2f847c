"""The entry point of ``python -m collectrace``."""

if __name__ == "__main__":
    from collectrace import quiet

    quiet.until_somebody_answers()
    from collectrace.cli import console

    console()
