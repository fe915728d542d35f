"""The task, and the executor that runs its records and punctuations."""
