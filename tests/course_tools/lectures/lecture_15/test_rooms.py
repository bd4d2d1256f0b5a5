"""Sensors of buildings: who hears whom, what they share, and the errors of filters and rivals on them."""

import pytest
import torch

from course_tools.lectures.lecture_15 import rivals, rooms
from course_tools.notebook.prediction_options import prediction


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


def test_a_sensor_is_asked_about_another_room_that_it_hears(graph):
    torch.testing.assert_close(graph.targets, graph.warmth[graph.asked])
    large = rooms.sensors(torch.Generator().manual_seed(0), n=50)
    assert (large.asked == large.rooms).float().mean() < 0.02
    heard = torch.zeros(len(large.rooms)).index_add(0, large.edges[0], rooms.from_the_duct(large))
    assert heard.min() >= 1


def test_neighbours_of_all_kinds_are_told_by_gases_and_noses_together_not_by_what_is_alike():
    large = rooms.sensors(torch.Generator().manual_seed(0), n=50)
    noise = large.features[:, 0] - large.warmth[large.rooms]
    assert noise.std().item() == pytest.approx(rooms.NOISE, abs=0.02)
    (hearing, heard), right = large.edges, rooms.from_the_duct(large) > 0
    gases, smelled = large.features[:, 1:4], large.features[:, 4:] @ torch.linalg.inv(torch.tensor(rooms.NOSES)).mT
    told = (smelled[hearing] - gases[heard]).square().mean(1)
    assert told[~right].mean() > 8 * told[right].mean()
    alike = (gases[hearing] - gases[heard]).square().mean(1)
    assert alike[~right].mean() < alike[right].mean()


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


def test_a_filter_that_knows_the_room_errs_less_than_a_mean_and_more_neighbours_change_no_question():
    graph, larger = rooms.unseen_buildings(), rooms.unseen_buildings(24)
    told = rooms.error(rooms.filtered(graph, rooms.from_the_duct(graph)), graph)
    averaged = rooms.error(rooms.filtered(graph, torch.ones(graph.edges.shape[1])), graph)
    assert told < averaged / 2
    assert rooms.error(graph.targets, graph) == 0
    assert torch.equal(graph.targets, larger.targets)
    assert larger.edges.shape[1] * 13 == graph.edges.shape[1] * 25


def test_the_unseen_buildings_err_by_the_numbers_of_the_first_prediction():
    graph, asked = rooms.unseen_buildings(), prediction("15.p1")
    averaged = rooms.filtered(graph, torch.ones(graph.edges.shape[1]))
    in_the_right_room = rooms.filtered(graph, rooms.from_the_duct(graph))
    assert asked.accepts(f"{rooms.error(averaged, graph):.3f}")
    _, _, few, one = (float(option.text) for option in asked.options)
    for number, predicted in ((few, in_the_right_room), (one, graph.features[:, 0])):
        assert rooms.error(predicted, graph) == pytest.approx(number, abs=0.05)


def test_new_buildings_depend_on_the_seed():
    first, again, other = (next(rooms.new_buildings(seed)).features for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("aggregate", ["sum", "mean", "amax"])
def test_an_edge_network_aggregates_the_messages_of_each_node(aggregate, graph):
    torch.manual_seed(0)
    model = rivals.EdgeNetwork(7, 5, aggregate)
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


def test_the_features_of_a_node_stand_beside_those_mixed_once_and_twice():
    x, edges = torch.randn(3, 2), torch.tensor([[0, 0, 1, 1, 1, 2, 2], [0, 1, 0, 1, 2, 1, 2]])
    matrix = torch.zeros(3, 3)
    for i, j in edges.T.tolist():
        matrix[i, j] = ((edges[0] == i).sum() * (edges[0] == j).sum()) ** -0.5
    expected = torch.cat([x, matrix @ x, matrix @ matrix @ x, torch.ones(3, 1)], dim=1)
    torch.testing.assert_close(rivals.mixed(x, edges), expected)


def test_a_filter_of_what_is_alike_averages_the_first_feature_by_a_softmax_of_scaled_differences():
    x, edges = torch.randn(3, 2), torch.tensor([[0, 0, 1], [1, 2, 1]])
    model = rivals.LikenessFilter(2)
    with torch.no_grad():
        model.scales.copy_(torch.tensor([-1.0, 0.5]))
        scores = ((x[0] - x[1:]).square() * model.scales).sum(1)
        expected = model.read_out((scores.softmax(0) @ x[1:, :1])[None])[0, 0]
        torch.testing.assert_close(model(x, edges)[0], expected)


def test_the_oracle_finds_the_noses_and_weighs_readings_by_how_near_smells_are_to_gases():
    oracle = rivals.fit_oracle(next(rooms.new_buildings(0, 50)))
    found = torch.nn.functional.normalize(oracle.noses, dim=0)
    torch.testing.assert_close(found, torch.tensor(rooms.NOSES).mT, atol=0.1, rtol=0)
    graph = next(rooms.new_buildings(1))
    x, heard = graph.features, graph.edges[1, graph.edges[0] == 17]
    distances = (x[17, 4:] - x[heard, 1:4] @ oracle.noses).square().sum(1)
    mean = (-oracle.sharpness * distances).softmax(0) @ x[heard, 0]
    factor, constant = oracle.line.flatten()
    torch.testing.assert_close(oracle(x, graph.edges)[17], factor * mean + constant)


def test_the_constants_of_the_oracle_are_the_best_of_the_grid_on_its_buildings():
    graph = next(rooms.new_buildings(2, 50))
    oracle = rivals.fit_oracle(graph)
    x, edges = graph.features, graph.edges
    for other in (oracle._replace(sharpness=1.0), oracle._replace(noses=oracle.noses / 1.5)):
        line = torch.linalg.lstsq(other.heard(x, edges), graph.targets[:, None]).solution
        assert rooms.error(oracle(x, edges), graph) < rooms.error(other._replace(line=line)(x, edges), graph)
