"""Operating deployments: restarts, alerts, rescaling, topic discovery."""
