"""``python -m multi_llm_chat`` is the command line."""

from multi_llm_chat.cli.main import main

if __name__ == "__main__":
    main()
