"""The cost of a run, by node and store, and as a heat map on the graph."""

from __future__ import annotations

import kstreamnb as ks


def run() -> ks.Replay:
    """Count a thousand words of ten texts, with one slow function among the nodes."""

    def slowly(word: str) -> str:
        return str(sum(range(20_000)))[:0] + word

    builder = ks.StreamsBuilder("words")
    words = builder.stream("texts").flat_map_values(str.split).map_values(slowly)
    words.group_by(lambda key, word: word).count(store="counts").to_stream().to("totals")
    records = [("texts", 0, at, at, f"t{at}", "duck calm " * 10) for at in range(10)]
    return ks.replay(builder.build(), ks.Sample.from_records(records))


def test_records_bytes_and_state_are_counted_by_node_and_store() -> None:
    """Ten texts become two hundred words, of which two rows remain."""
    profile = run().profile()
    records = {each.node.split("-")[1] if "-" in each.node else each.node: each.records for each in profile.nodes}
    assert (records["SOURCE"], records["FLATMAPVALUES"], records["MAPVALUES"]) == (10, 10, 200)
    assert [(each.store, each.rows, each.writes) for each in profile.stores] == [("counts", 2, 200)]
    assert profile.stores[0].bytes == len('"duck"') + len('"calm"') + 2 * len("100")
    assert profile.nodes[0].bytes == 10 * (len('"t0"') + len('"' + "duck calm " * 10 + '"'))


def test_a_profile_without_cpu_is_the_same_each_time() -> None:
    """Figures that differ between runs appear only on request."""
    first, second = run().profile(), run().profile()
    assert (first.nodes, first.stores) == (second.nodes, second.stores)
    assert "CPU" not in str(run().profile())
    assert all(each.cpu_share is None for each in run().profile().nodes)


def test_cpu_time_is_that_of_the_node_itself() -> None:
    """The slow function's node has the largest share, not the one that forwards to it."""
    profile = run().profile(cpu=True)
    shares = {each.node: each.cpu_share for each in profile.nodes}
    assert max(shares, key=lambda node: shares[node] or 0).startswith("KSTREAM-MAPVALUES")
    assert abs(sum(share or 0 for share in shares.values()) - 1) < 1e-9
    assert "CPU" in profile.header


def test_a_profile_is_a_heat_map() -> None:
    """The graph has shades of color and the figures, and so has the explorer; other pictures have none."""
    profile = run().profile()
    svg = profile.to_svg()
    assert "ks-heat-" in svg
    assert "200 records" in svg
    assert "ks-heat-" not in run().to_svg()
    explorer = ks.widgets.explorer(profile)
    assert "ks-heat-" in str(explorer.facts["svg"])
