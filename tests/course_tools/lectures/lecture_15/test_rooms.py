"""Sensors of buildings: who hears whom, what they share, and the errors of filters and rivals on them."""

import pytest
import torch

from course_tools.lectures.lecture_15 import rivals, rooms


@pytest.fixture
def graph():
    return rooms.sensors(torch.Generator().manual_seed(0), n=5, neighbours=7, side=3, each=43)


def test_each_sensor_hears_itself_and_its_nearest_neighbours_in_its_building(graph):
    hearing, heard = graph.edges
    assert torch.equal(hearing.bincount(), torch.full((5 * 43,), 8))
    assert torch.equal(hearing // 43, heard // 43)
    places = graph.places.unflatten(0, (5, 43))
    nearest = torch.cdist(places, places).argsort(-1)[..., :8]
    assert torch.equal(heard.view(5, 43, 8).sort(-1).values - 43 * torch.arange(5)[:, None, None], nearest.sort(-1).values)
    assert torch.equal(heard.view(5 * 43, 8)[:, 0], torch.arange(5 * 43))


def test_sensors_of_a_room_have_its_temperature_and_are_alike(graph):
    for room in graph.rooms.unique():
        own = graph.rooms == room
        assert len(graph.targets[own].unique()) == 1
    large = rooms.sensors(torch.Generator().manual_seed(0), n=50)
    noise = large.features[:, 0] - large.targets
    assert noise.std().item() == pytest.approx(1, abs=0.05)
    hearing, heard = large.features[:, 1:4][large.edges]
    same = rooms.in_the_same_room(large) > 0
    differences = (hearing - heard).square().mean(1)
    assert differences[~same].mean() > 10 * differences[same].mean()


def test_the_rooms_are_rectangles(graph):
    for room in graph.rooms.unique():
        own = graph.rooms == room
        low, high = graph.places[own].aminmax(dim=0)
        building = torch.arange(5 * 43) // 43 == own.nonzero()[0] // 43
        within = building & (graph.places >= low).all(1) & (graph.places <= high).all(1)
        assert torch.equal(within, own)


def test_the_walls_are_those_between_the_rooms(graph):
    beyond = (graph.places.view(5, 43, 2, 1) > graph.walls[:, None]).sum(-1)
    assert torch.equal(graph.rooms.view(5, 43), beyond[..., 1] * 3 + beyond[..., 0] + 9 * torch.arange(5)[:, None])


def test_a_filter_that_knows_the_rooms_errs_less_than_one_that_compares_and_that_less_than_a_mean():
    graph = rooms.unseen_buildings()
    told = rooms.error(rooms.filtered(graph, rooms.in_the_same_room(graph)), graph)
    compared = rooms.error(rooms.best_filter(graph, [(1, 2, 3), (4, 5)])(graph), graph)
    averaged = rooms.error(rooms.filtered(graph, torch.ones(graph.edges.shape[1])), graph)
    assert told < compared < averaged
    assert rooms.error(graph.targets, graph) == 0
    assert rooms.error(graph.features[:, 0], graph) == pytest.approx(rooms.DEGREES, abs=0.1)


def test_new_buildings_depend_on_the_seed():
    first, again, other = (next(rooms.new_buildings(seed)).features for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("aggregate", ["sum", "mean", "amax"])
def test_an_edge_network_aggregates_the_messages_of_each_node(aggregate, graph):
    torch.manual_seed(0)
    model = rivals.EdgeNetwork(6, 5, aggregate)
    x, (i, j) = graph.features, graph.edges
    messages = model.message(model.receiver(x[i]) + model.sender(x[j]))
    received = getattr(messages[i == 17], aggregate)(0)
    expected = model.update(torch.cat([received, x[17]]))
    torch.testing.assert_close(model(x, graph.edges)[17:18], expected)


def test_fixed_mixing_reads_two_steps_far():
    x, edges = torch.randn(4, 3), torch.tensor([[0, 0, 1, 1, 2, 2, 3], [0, 1, 1, 2, 2, 3, 3]])
    torch.manual_seed(0)
    model, changed = rivals.FixedMixing(3, 64), [x.index_add(0, torch.tensor([k]), torch.ones(1, 3)) for k in range(4)]
    moved = [not torch.allclose(model(x, edges)[0], model(other, edges)[0]) for other in changed]
    assert moved == [True, True, True, False]
