# SPDX-License-Identifier: Apache-2.0
"""A stand-in for mcp-server-time: the same tools, and results of the same form.

It starts in a tenth of the time. It knows three time zones, and its answers never change.
"""

from scripted_server import Failure, Server, schema, structured

TEXT = {"type": "string"}
HOURS = {"UTC": 0, "Asia/Tokyo": 9, "Africa/Cairo": 2}
TIME = schema(
    "timezone",
    "datetime",
    "day_of_week",
    "is_dst",
    timezone=TEXT,
    datetime=TEXT,
    day_of_week=TEXT,
    is_dst={"type": "boolean"},
)
server = Server("clock")


def hours(zone):
    if zone not in HOURS:
        raise Failure(f"Invalid timezone: {zone}")
    return HOURS[zone]


def moment(zone, hour, minute):
    return {
        "timezone": zone,
        "datetime": f"2026-01-05T{hour:02}:{minute:02}:00+{hours(zone):02}:00",
        "day_of_week": "Monday",
        "is_dst": False,
    }


@server.tool(inputs=schema("timezone", timezone=TEXT), output=TIME)
def get_current_time(request):
    zone = request.arguments["timezone"]
    return structured(moment(zone, 6 + hours(zone), 0))


@server.tool(
    inputs=schema(
        "source_timezone",
        "time",
        "target_timezone",
        source_timezone=TEXT,
        time=TEXT,
        target_timezone=TEXT,
    ),
    output=schema(
        "source", "target", "time_difference", source=TIME, target=TIME, time_difference=TEXT
    ),
)
def convert_time(request):
    source, target = (request.arguments[f"{side}_timezone"] for side in ("source", "target"))
    hour, minute = map(int, request.arguments["time"].split(":"))
    difference = hours(target) - hours(source)
    return structured(
        {
            "source": moment(source, hour, minute),
            "target": moment(target, (hour + difference) % 24, minute),
            "time_difference": f"{difference:+.1f}h",
        }
    )
