// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace kvevict::cpu {

/// A unit of parallel work: `call(data, index, worker)`. A plain function pointer, so that neither
/// the pool nor an engine's own parallel-for allocates per call.
using Task = void (*)(void* data, std::int64_t index, int worker);

/// `workers - 1` threads beside the calling one, started on first use. Not for use from several
/// threads at once: each thread of an engine has its own resources.
class ThreadPool {
 public:
  explicit ThreadPool(int workers) : workers_(workers) {}
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  ~ThreadPool() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  /// Runs every index in [0, count) once and returns when all are done; rethrows the first
  /// exception.
  void run(std::int64_t count, Task task, void* data) {
    if (count <= 0) return;
    if (workers_ <= 1 || count == 1) {
      for (std::int64_t i = 0; i < count; ++i) task(data, i, 0);
      return;
    }
    start();
    {
      const std::lock_guard lock(mutex_);
      task_ = task;
      data_ = data;
      count_ = count;
      next_ = 0;
      error_ = nullptr;
      busy_ = workers_ - 1;
      ++generation_;
    }
    wake_.notify_all();
    work(0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return busy_ == 0; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void start() {
    for (int w = static_cast<int>(threads_.size()) + 1; w < workers_; ++w) {
      threads_.emplace_back([this, w] { loop(w); });
    }
  }

  void loop(int worker) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
      lock.unlock();
      work(worker);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  void work(int worker) {
    for (std::int64_t i = next_++; i < count_; i = next_++) {
      try {
        task_(data_, i, worker);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
      }
    }
  }

  int workers_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Task task_ = nullptr;
  void* data_ = nullptr;
  std::int64_t count_ = 0;
  std::atomic<std::int64_t> next_ = 0;
  int busy_ = 0;
  std::uint64_t generation_ = 0;
  bool stopping_ = false;
  std::exception_ptr error_;
};

}  // namespace kvevict::cpu
