"""The table's lock as Hudi's writers take it, and what any lock or lease needs: clocks, renewal, proof of death."""
