# SPDX-License-Identifier: Apache-2.0
"""What operators load into Prometheus and Grafana: `python3 -m monitoring` writes it."""
