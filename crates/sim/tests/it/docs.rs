//! What the pages show can be run.

#[test]
fn the_scenario_of_the_page_can_be_run() {
    let page = include_str!("../../../../docs/simulate.md");
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let scenario = sim::scenario::read("page", text.as_bytes()).unwrap();
    assert_eq!((scenario.nodes, scenario.traffic.len()), (8, 4));
}
