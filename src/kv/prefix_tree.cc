#include "kv/prefix_tree.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/result.h"
#include "kv/unit_keys.h"

namespace fak::kv {
namespace {

using Tokens = std::span<const int32_t>;

struct TokensLess {
  using is_transparent = void;
  bool operator()(Tokens a, Tokens b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }
};

uint32_t CommonPrefix(Tokens a, Tokens b) {
  const size_t most = std::min(a.size(), b.size());
  size_t same = 0;
  while (same < most && a[same] == b[same]) {
    ++same;
  }
  return static_cast<uint32_t>(same);
}

}  // namespace

struct PrefixTree::Node {
  std::vector<int32_t> tokens;  // of this block; empty in a root
  BlockId block = tensor::kNoBlock;
  StateSlot state = tensor::kNoState;
  Node* parent = nullptr;
  uint64_t used = 0;
  uint64_t key = 0;  // BlockKey() of a whole block, RootKey() of a root
  // Siblings in lexicographic order: the one that shares most with a given text is a neighbour of
  // the place where that text would be inserted.
  std::map<std::vector<int32_t>, std::unique_ptr<Node>, TokensLess> children;

  // The child that shares the longest prefix with `text`, and how much. Null when none shares any.
  std::pair<Node*, uint32_t> Closest(Tokens text) const {
    std::pair<Node*, uint32_t> best{nullptr, 0};
    const auto after = children.lower_bound(text);
    const auto consider = [&best, text](Node& child) {
      const uint32_t common = CommonPrefix(child.tokens, text);
      if (common > best.second) {
        best = {&child, common};
      }
    };
    if (after != children.end()) {
      consider(*after->second);
    }
    if (after != children.begin()) {
      consider(*std::prev(after)->second);
    }
    return best;
  }
};

struct PrefixTree::Forest {
  std::map<std::string, Node, std::less<>> roots;  // by salt
  std::set<std::pair<uint64_t, Node*>> leaves;     // oldest first
};

PrefixTree::PrefixTree(BlockPool& pool, uint32_t block_size)
    : pool_(pool), block_size_(block_size), forest_(std::make_unique<Forest>()) {}

PrefixTree::~PrefixTree() {
  maybe_log_ = nullptr;
  Clear();
}

PrefixTree::Node& PrefixTree::Root(std::string_view salt) {
  const auto found = forest_->roots.find(salt);
  if (found != forest_->roots.end()) {
    return found->second;
  }
  Node& root = forest_->roots[std::string(salt)];
  root.key = RootKey(salt);
  return root;
}

void PrefixTree::AddLeaf(Node& node) {
  if (node.parent != nullptr && node.children.empty()) {
    forest_->leaves.emplace(node.used, &node);
  }
}

void PrefixTree::RemoveLeaf(Node& node) {
  forest_->leaves.erase({node.used, &node});
}

void PrefixTree::Touch(Node& node) {
  RemoveLeaf(node);
  node.used = ++clock_;
  AddLeaf(node);
}

PrefixTree::Match PrefixTree::Find(std::string_view salt, Tokens tokens, uint32_t tokens_max) {
  Match match;
  const auto root = forest_->roots.find(salt);
  if (root == forest_->roots.end()) {
    return match;
  }
  Tokens rest = tokens.first(std::min<size_t>(tokens.size(), tokens_max));
  Node* node = &root->second;
  while (!rest.empty()) {
    const auto [child, common] =
        node->Closest(rest.first(std::min<size_t>(rest.size(), block_size_)));
    if (child == nullptr) {
      break;
    }
    Touch(*child);
    pool_.Hold(child->block);
    match.blocks.push_back(child->block);
    match.tokens += common;
    if (common < block_size_) {
      break;
    }
    if (child->state != tensor::kNoState) {
      match.state = child->state;
      match.state_tokens = match.tokens;
    }
    rest = rest.subspan(common);
    node = child;
  }
  return match;
}

void PrefixTree::Insert(std::string_view salt, Tokens tokens, std::span<const BlockId> blocks,
                        StateSlot state) {
  CHECK(blocks.size() * block_size_ >= tokens.size()) << "blocks don't cover the path";
  Node* node = &Root(salt);
  for (size_t i = 0; i * block_size_ < tokens.size(); ++i) {
    const Tokens rest = tokens.subspan(i * block_size_);
    const Tokens filled = rest.first(std::min<size_t>(rest.size(), block_size_));
    const auto [closest, common] = node->Closest(filled);
    if (closest != nullptr && common == filled.size()) {
      Touch(*closest);  // known, or a shorter fill of what is known
      node = closest;
      continue;
    }
    if (closest != nullptr && common == closest->tokens.size()) {
      Drop(*closest);  // a shorter fill of this block
    }
    RemoveLeaf(*node);
    auto added = std::make_unique<Node>();
    added->tokens.assign(filled.begin(), filled.end());
    added->block = blocks[i];
    added->parent = node;
    pool_.Hold(blocks[i]);
    pool_.SetCached(blocks[i], true);
    Node* const child = added.get();
    node->children.emplace(child->tokens, std::move(added));
    ++nodes_;
    Touch(*child);
    if (filled.size() == block_size_) {
      child->key = BlockKey(node->key, filled);
      if (maybe_log_ != nullptr) {
        maybe_log_->Stored(salt, node->parent == nullptr, node->key, child->key, filled);
      }
    }
    node = child;
  }
  if (state != tensor::kNoState) {
    CHECK(tokens.size() % block_size_ == 0 && node->parent != nullptr) << "checkpoint off an edge";
    if (node->state != tensor::kNoState) {
      released_states_.push_back(node->state);
    }
    node->state = state;
  }
}

void PrefixTree::Drop(Node& node) {
  if (maybe_log_ != nullptr && node.tokens.size() == block_size_) {
    maybe_log_->Removed(node.key);
  }
  RemoveLeaf(node);
  pool_.SetCached(node.block, false);
  pool_.Release(node.block);
  if (node.state != tensor::kNoState) {
    released_states_.push_back(node.state);
  }
  --nodes_;
  Node& parent = *node.parent;
  parent.children.erase(parent.children.find(node.tokens));
  AddLeaf(parent);
}

// Without recursion: a path may be as long as a context.
uint32_t PrefixTree::DropBranch(Node& node) {
  uint32_t dropped = 0;
  Node* at = &node;
  while (true) {
    while (!at->children.empty()) {
      at = at->children.begin()->second.get();
    }
    Node* const parent = at->parent;
    const bool last = at == &node;
    Drop(*at);
    ++dropped;
    if (last) {
      return dropped;
    }
    at = parent;
  }
}

uint32_t PrefixTree::Evict(uint32_t wanted) {
  uint32_t freed = 0;
  auto leaf = forest_->leaves.begin();
  while (freed < wanted && leaf != forest_->leaves.end()) {
    Node& node = *leaf->second;
    const auto next = std::next(leaf);
    if (pool_.shared(node.block)) {
      leaf = next;
      continue;
    }
    Node& parent = *node.parent;
    Drop(node);
    ++freed;
    // A parent that became a leaf was used no later than its child: it comes next.
    const auto uncovered = forest_->leaves.find({parent.used, &parent});
    leaf = uncovered != forest_->leaves.end() ? uncovered : next;
  }
  DropEmptyRoots();
  return freed;
}

PrefixTree::Pruned PrefixTree::Prune(std::string_view salt, Tokens path) {
  Pruned pruned;
  const auto root = forest_->roots.find(salt);
  if (root == forest_->roots.end() || path.empty()) {
    return pruned;
  }
  Node* node = &root->second;
  while (path.size() > block_size_) {
    const auto [child, common] = node->Closest(path.first(block_size_));
    pruned.tokens_left += common;
    if (child == nullptr || common < block_size_) {
      return pruned;
    }
    node = child;
    path = path.subspan(block_size_);
  }
  while (true) {
    const auto [child, common] = node->Closest(path);
    if (child == nullptr || common < path.size()) {
      pruned.tokens_left += common;
      DropEmptyRoots();
      return pruned;
    }
    pruned.nodes += DropBranch(*child);
  }
}

// Salts are the clients': one without a block must not stay.
void PrefixTree::DropEmptyRoots() {
  std::erase_if(forest_->roots, [](const auto& root) { return root.second.children.empty(); });
}

uint32_t PrefixTree::Clear() {
  EventLog* const maybe_log = std::exchange(maybe_log_, nullptr);  // one event for all
  const uint32_t dropped = ClearSalts([](std::string_view) { return true; });
  maybe_log_ = maybe_log;
  if (maybe_log_ != nullptr && dropped > 0) {
    maybe_log_->Cleared();
  }
  return dropped;
}

uint32_t PrefixTree::ClearSalts(FunctionRef<bool(std::string_view salt)> goes) {
  uint32_t dropped = 0;
  for (auto& [salt, root] : forest_->roots) {
    while (goes(salt) && !root.children.empty()) {
      dropped += DropBranch(*root.children.begin()->second);
    }
  }
  DropEmptyRoots();
  return dropped;
}

size_t PrefixTree::salts() const {
  return forest_->roots.size();
}

std::vector<StateSlot> PrefixTree::TakeReleasedStates() {
  return std::exchange(released_states_, {});
}

}  // namespace fak::kv
