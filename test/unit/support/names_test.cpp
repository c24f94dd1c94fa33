// Names as people write them.
#include "ddlsim/support/names.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace {

using namespace ddlsim;
using Names = std::vector<std::string>;

const Names kModels{"alexnet", "vgg16", "resnet50", "resnet101", "resnet152", "bert_base", "bert_large"};

}  // namespace

TEST_CASE("names: spellings that mean the same fold alike", "[unit][support]") {
  CHECK(fold_name("ResNet_50  v1.5") == "resnet-50-v1.5");
  CHECK(fold_name("resnet-50 v1.5") == "resnet-50-v1.5");
  CHECK(fold_name("RESNET__50- -V1.5") == "resnet-50-v1.5");
  CHECK(fold_name("bert_large") == fold_name("BERT-Large"));
  CHECK(fold_name("p3.16xlarge") == "p3.16xlarge");
}

TEST_CASE("names: folding drops separators at the ends and keeps different names apart", "[unit][support]") {
  CHECK(fold_name("  vgg16 ") == "vgg16");
  CHECK(fold_name("__a__") == "a");
  CHECK(fold_name(" _- ").empty());
  CHECK(fold_name("").empty());
  CHECK(fold_name("resnet50") != fold_name("resnet-50"));
  CHECK(fold_name("p3.2xlarge") != fold_name("p3-2xlarge"));
}

TEST_CASE("names: a transposition is one slip", "[unit][support]") {
  // One swap is within the limit of 1 for words of 2; two replacements would not be.
  CHECK(nearest_names("sp", Names{"ps"}) == Names{"ps"});
  // vgg61: a swap away from vgg16, two replacements from vgg24.
  CHECK(nearest_names("vgg61", Names{"vgg24", "vgg16"}).front() == "vgg16");
  CHECK(nearest_names("rsenet50", kModels).front() == "resnet50");
}

TEST_CASE("names: the nearest comes first, and ties keep the order of the candidates", "[unit][support]") {
  CHECK(nearest_names("resnet15", kModels).front() == "resnet152");  // 1 letter; resnet50 is 2 away
  CHECK(nearest_names("aa", Names{"ab", "ac", "ad", "ae"}) == Names{"ab", "ac", "ad"});
  CHECK(nearest_names("aa", Names{"ab", "ac", "ad", "ae"}, 1) == Names{"ab"});
  CHECK(nearest_names("aa", Names{"ab"}, 0).empty());
  CHECK(nearest_names("VGG_16", Names{"vgg-16"}) == Names{"vgg-16"});  // folded before they are compared
}

TEST_CASE("names: what is too far to be a slip is not offered", "[unit][support]") {
  CHECK(nearest_names("zebra", kModels).empty());
  // 6 letters allow 6 / 3 = 2 slips.
  CHECK(nearest_names("abcdef", Names{"abcdxy"}) == Names{"abcdxy"});
  CHECK(nearest_names("abcdef", Names{"abcxyz"}).empty());
  // Words of 1 or 2 letters still allow 1.
  CHECK(nearest_names("a", Names{"b"}) == Names{"b"});
  CHECK(nearest_names("ab", Names{"xy"}).empty());
}

TEST_CASE("names: part of a name is near, from three letters on", "[unit][support]") {
  const Names gpus{"a100-sxm4-40gb", "v100-sxm2-16gb", "v100-pcie-16gb"};
  CHECK(nearest_names("v100", gpus) == Names{"v100-sxm2-16gb", "v100-pcie-16gb"});
  CHECK(nearest_names("SXM2", gpus) == Names{"v100-sxm2-16gb"});
  CHECK(nearest_names("v1", gpus).empty());
}

TEST_CASE("names: suggestions read as a sentence", "[unit][support]") {
  CHECK(suggestion("vgg61", Names{"vgg16"}) == "did you mean 'vgg16'?");
  CHECK(suggestion("aa", Names{"ab", "ac"}) == "did you mean 'ab' or 'ac'?");
  CHECK(suggestion("aa", Names{"ab", "ac", "ad", "ae"}) == "did you mean 'ab', 'ac' or 'ad'?");
}

TEST_CASE("names: with nothing near, all valid names are listed up to a limit", "[unit][support]") {
  CHECK(suggestion("zebra", Names{"ps", "allreduce"}) == "valid: ps, allreduce");
  CHECK(suggestion("zebra", kModels, 2) == "valid: alexnet, vgg16 and 5 more");  // 7 - 2
  CHECK(suggestion("zebra", kModels, 7) ==
        "valid: alexnet, vgg16, resnet50, resnet101, resnet152, bert_base, bert_large");
}

TEST_CASE("names: join", "[unit][support]") {
  CHECK(join(Names{}) == "");
  CHECK(join(Names{"a"}) == "a");
  CHECK(join(Names{"a", "b", "c"}) == "a, b, c");
  CHECK(join(Names{"a", "b"}, " | ") == "a | b");
}
