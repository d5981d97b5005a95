"""The tests of `pytest -m core`: one test for each promise, and one comparison for each algorithm.

A value is the beginning of a test's identifier, without `test_` and `.py`. The first test that
begins like this is marked.
"""

# Promises of docs/reliability.md, docs/saving.md and docs/reproducibility.md.
PROMISES = {
    "an exception at any line": "attack::exceptions_and_failing_allocations_in_learning[exact",
    "an exception while rows are learned": "attack::an_exception_at_any_line_of_learning_many",
    "a signal at any time": "interruptions::signals_while_a_model_learns[30-classifier",
    "too little memory": "interruptions::memory_that_is_short[classifier",
    "a sample that is refused": "configurations::what_is_refused_changes_nothing[20-classifier",
    "a frame that is refused": "configurations::a_frame_that_is_refused_changes_nothing",
    "errors name the feature": "bad_inputs::what_is_wrong_is_named",
    "accepted values lead to numbers": "contract::what_is_accepted_leaves_numbers",
    "errors of losses": "attack::a_loss_that_raises_an_error_raises_it_once",
    "threads": "threads::everything_at_once[300-classifier",
    "predictions of threads": "threads::predictions_are_those_of_their_own_samples[adaptive",
    "forks": "threads::a_fork_has_no_locks_of_other_threads",
    "pickles of another layout": "contract::pickles_of_another_layout_or_byte_order_are_refused",
    "flipped bits": "damaged::flipped_bits_never_crash_nor_hang[classifier",
    "forged files": "damaged::forged_files_never_crash_nor_hang[classifier",
    "damaged rows are named": "damaged::damage_is_refused",
    "models own their arrays": "contract::models_own_all_arrays_that_they_write_to",
    "missing values": "inputs::missing_values_of_all_libraries_are_absent",
    "types of values": "inputs::numbers_of_any_type_are_features_targets_and_weights",
    "batches": "configurations::batches_equal_single_samples_bit_for_bit[adaptive",
    "copies": "configurations::copies_go_on_bit_for_bit[300-adaptive",
    "loaded models": "files::loaded_models_are_the_same",
    "files of earlier versions": "files::golden_files",
    "a process killed while it saves": "files::killed_at_any_moment",
    "removed samples": "forgetting::what_is_left_is_the_restriction_of_the_tree",
    "merged models": "merging::densities_of_parts_are_those_of_all",
    "shards of a forest": "shards::parts_learn_what_the_whole_does",
    "keys": "keyed::each_key_has_its_own_model",
}

# Algorithms that are compared with plain references.
ALGORITHMS = {
    "Mondrian forests, prediction": "kernels::prediction_is_the_twins",
    "Mondrian forests, counts": "kernels::counts_are_those_of_algorithm_5",
    "Mondrian trees, distribution": "kernels::online_forests_have_the_law_of_batch_forests",
    "targets": "gaussian::the_mixture_is_the_twins",
    "widths": "widths::trees_have_the_twins_widths_after_each_sample",
    "adaptive forests": "adaptive::posteriors_of_a_built_tree_are_the_twins",
    "neighbours": "neighbors::predictions_are_the_twins",
    "densities": "density::forest_is_the_twin",
    "random cuts": "random_cuts::scores_are_expectations_over_all_places",
    "isolation kernels": "isolation::cells_are_the_twins",
    "ridge regression": "ridge::the_posterior_is_that_of_dense_matrices",
    "drift monitor": "monitor::ranks_and_evidence_are_those_of_the_twin",
    "alarms": "alarms::scores_and_alarms_are_those_of_the_twin",
    "intervals": "calibrated::intervals_are_the_twins",
}
