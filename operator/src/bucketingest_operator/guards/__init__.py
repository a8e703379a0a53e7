"""What is asked before something is done from outside: may this spec be stored, may the operator be uninstalled."""
