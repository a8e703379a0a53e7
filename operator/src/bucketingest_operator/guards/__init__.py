"""What comes from outside: who may connect, may this spec be stored, may the operator be uninstalled."""
