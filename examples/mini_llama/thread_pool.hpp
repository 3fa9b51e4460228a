// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace mini_llama {

// A fixed number of threads, the caller's included, that work through numbered tasks.
class ThreadPool {
 public:
  // Task number in [0, tasks); number in [0, threads()) of the thread that runs it, for scratch
  // memory of its own.
  using Task = std::function<void(std::int64_t task, int thread)>;

  // Throws ArgumentError unless 1 <= threads <= 1024.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs task(0) .. task(tasks - 1), in any order and side by side, and returns when all are done.
  // The first exception of a task is thrown again here, after the running tasks have ended; tasks
  // not yet begun are left out. One caller at a time; a task must not call parallel_for itself.
  void parallel_for(std::int64_t tasks, const Task& task);

 private:
  void work(const std::stop_token& stop, int thread);
  void run_tasks(std::unique_lock<std::mutex>& lock, int thread);

  std::mutex mutex_;
  std::condition_variable_any start_;
  std::condition_variable done_;
  const Task* task_ = nullptr;
  std::int64_t next_ = 0;
  std::int64_t end_ = 0;
  std::int64_t running_ = 0;
  std::exception_ptr error_;
  std::vector<std::jthread> workers_;  // last, so that they have ended before the rest goes
};

}  // namespace mini_llama
