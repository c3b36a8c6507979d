# SPDX-License-Identifier: Apache-2.0
# A cell for `ipybox run`: calls the MCP server `mcp-server-time` through its generated API, keeps
# the results in variables, prints a table and draws it. It needs mcptools/world_time, which
# `ipybox apigen` makes (README.md beside it has the command), and pandas and matplotlib:
# `pip install uv pandas matplotlib`.
import matplotlib.pyplot as plt
import pandas as pd
from mcptools.world_time import convert_time

# Their offsets are the same all year.
cities = {
    "Honolulu": "Pacific/Honolulu",
    "Caracas": "America/Caracas",
    "Accra": "Africa/Accra",
    "Tehran": "Asia/Tehran",
    "Kathmandu": "Asia/Kathmandu",
    "Brisbane": "Australia/Brisbane",
}

rows = []
for city, zone in cities.items():
    noon = convert_time.run(source_timezone="UTC", time="12:00", target_timezone=zone)
    rows.append((city, noon.target.datetime[11:16], float(noon.time_difference.rstrip("h"))))

table = pd.DataFrame(rows, columns=["city", "at noon UTC", "hours ahead"]).set_index("city")
print(table)

ax = table["hours ahead"].plot.barh(color="tab:blue", figsize=(7, 3.5))
ax.axvline(0, color="black", linewidth=0.8)
ax.set(xlabel="hours ahead of UTC", ylabel="", title="What mcp-server-time says")
plt.tight_layout()
plt.show()
