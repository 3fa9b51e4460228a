// SPDX-License-Identifier: Apache-2.0
#include "thread_pool.hpp"

#include <utility>

#include "error.hpp"

namespace mini_llama {
namespace {

constexpr int max_threads = 1024;

}  // namespace

ThreadPool::ThreadPool(int threads) {
  if (threads < 1 || threads > max_threads) {
    throw ArgumentError(concat("threads is ", threads, ", allowed are 1 to ", max_threads));
  }
  for (int thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread](const std::stop_token& stop) { work(stop, thread); });
  }
}

void ThreadPool::parallel_for(std::int64_t tasks, const Task& task) {
  if (tasks <= 0) return;
  std::unique_lock lock(mutex_);
  task_ = &task;
  next_ = 0;
  end_ = tasks;
  if (tasks > 1) start_.notify_all();
  run_tasks(lock, 0);
  done_.wait(lock, [this] { return running_ == 0; });
  task_ = nullptr;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::work(const std::stop_token& stop, int thread) {
  std::unique_lock lock(mutex_);
  while (start_.wait(lock, stop, [this] { return next_ < end_; })) run_tasks(lock, thread);
}

// The tasks are coarse (tenths of a millisecond), so one lock for each costs nothing that shows.
void ThreadPool::run_tasks(std::unique_lock<std::mutex>& lock, int thread) {
  while (next_ < end_) {
    const std::int64_t number = next_++;
    ++running_;
    lock.unlock();
    std::exception_ptr error;
    try {
      (*task_)(number, thread);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --running_;
    if (error) {
      if (!error_) error_ = error;
      next_ = end_;
    }
  }
  if (running_ == 0) done_.notify_one();
}

}  // namespace mini_llama
