"""What guardspan costs: bare Guardrails against the instrumented one and the least possible work.

``python -m bench`` runs it; ``bench/README.md`` says how to read it.
"""
