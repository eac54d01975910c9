"""What the understood evidence comes to: metrics with intervals, findings, the steps of the protocol, the report."""
