# SPDX-License-Identifier: Apache-2.0
#
# One call for each defect, see kvevict_defect in CMakeLists.txt. They differ in kind and in kernel; each is one that a
# careless edit could make.

# Races: barriers that are gone, sums that are not atomic.

set(race "ThreadSanitizer: data race.*")

kvevict_defect(
  tsan partial_results_read_too_early softmax.cuh mirror_scores.cu "[softmax]" "${race}softmax_states"
  "  __syncthreads();
  if (thread != 0) return;"
  "  if (thread != 0) return;")

kvevict_defect(
  tsan counted_before_it_is_cleared select_top.cuh mirror_selection.cu "ragged heads are selected*"
  "${race}select_whole_heads"
  "    __syncthreads();
    const unsigned nans ="
  "    const unsigned nans =")

kvevict_defect(
  tsan blocks_that_add_to_one_count select_top.cuh mirror_selection.cu "a million rows" "${race}count_split_digits"
  "atomicAdd(sums + bin, histogram[bin]);"
  "sums[bin] += histogram[bin];")

kvevict_defect(
  tsan rows_written_before_they_are_read row_moves.cuh mirror_gather.cu "[gather]" "${race}walk_forward"
  "      __syncthreads();
"
  "")

kvevict_defect(
  tsan panel_used_before_it_is_staged cholesky.cuh mirror_capacity.cu "leverages with every kind of noise"
  "${race}update_behind_panel"
  "      stage_panel(lower, dim, first, start, right);
      __syncthreads();"
  "      stage_panel(lower, dim, first, start, right);")

kvevict_defect(
  tsan keys_compared_while_they_are_exchanged score_sort.cuh mirror_order.cu "[score_order]" "${race}sort_tiles"
  "        }
      }
      __syncthreads();"
  "        }
      }")

# Overruns: of global and of shared memory.

set(overrun "AddressSanitizer: heap-buffer-overflow.*")

kvevict_defect(
  asan one_row_too_many running_mass.cuh mirror_mass.cu "[mass]" "${overrun}add_to_mass"
  "after.layout);
  if (static_cast<std::int64_t>(threadIdx.x) >= tile.count) return;"
  "after.layout);
  if (static_cast<std::int64_t>(threadIdx.x) > tile.count) return;")

kvevict_defect(
  asan one_index_too_many gather.cuh mirror_gather.cu "[gather]" "${overrun}copy_rows"
  "if (i < items) held[k] ="
  "if (i <= items) held[k] =")

kvevict_defect(
  asan shared_array_too_small select_top.cuh mirror_selection.cu "[select_top]" "${overrun}clear_histogram"
  "  KVEVICT_SHARED(unsigned, histogram, [radix_bins]);
  KVEVICT_SHARED(long long, wide_sums, [Threads / warp_size]);
  KVEVICT_SHARED(unsigned, warp_sums"
  "  KVEVICT_SHARED(unsigned, histogram, [radix_bins - 1]);
  KVEVICT_SHARED(long long, wide_sums, [Threads / warp_size]);
  KVEVICT_SHARED(unsigned, warp_sums")

kvevict_defect(
  asan threads_beyond_the_last_head protect.cuh mirror_selection.cu "[protected_counts]" "${overrun}find_protected_rows"
  "  if (h >= layout.heads()) return;"
  "")

kvevict_defect(
  asan one_key_too_many rerotate_keys.cuh mirror_gather.cu "[rerotate]" "${overrun}rerotate_tiles"
  "static_cast<int>(tile.count) * pairs;"
  "static_cast<int>(tile.count + 1) * pairs;")

kvevict_defect(
  plain too_little_dynamic_shared_memory row_products.cuh mirror_logits.cu "[query_logits]" "dynamic shared memory"
  "shared_bytes<float>(Count * channels), rows,"
  "shared_bytes<float>(Count * channels - 4), rows,")

# Waits and stream orders that are missing: wrong values, since streams are lazy.

set(wrong_value "test cases:[^\n]*failed")

kvevict_defect(
  plain copy_on_another_stream copy.cuh mirror_scores.cu "[pooling]" "${wrong_value}"
  "cudaMemcpyDeviceToDevice, res.stream()),"
  "cudaMemcpyDeviceToDevice, nullptr),")

kvevict_defect(
  plain result_used_without_waiting global_counts.cuh mirror_selection.cu "[global_counts]" "${wrong_value}"
  "  res.wait();
  kvevict::detail::finish_global_heads"
  "  kvevict::detail::finish_global_heads")

kvevict_defect(
  plain result_delivered_too_late score_spread.cuh mirror_order.cu "[score_spread]" "${wrong_value}"
  "  res.wait();
"
  "")

# Barriers and warp operations that not all threads reach.

kvevict_defect(
  plain return_before_a_barrier gather.cuh mirror_gather.cu "[gather]" "barrier"
  "  const std::int32_t* kept = selection.head(head);
  const std::int64_t moved ="
  "  const std::int32_t* kept = selection.head(head);
  if (static_cast<std::int64_t>(threadIdx.x) >= count) return;
  const std::int64_t moved =")

kvevict_defect(
  plain warp_operation_without_a_lane softmax.cuh mirror_scores.cu "[softmax]" "wait in a warp operation"
  "  if (thread < warp_size) {
    SoftmaxState state"
  "  if (thread < warp_size - 1) {
    SoftmaxState state")
