// What a prediction says of its loader. Private to the room.
#pragma once

#include "ddlsim/answer/prediction.h"
#include "predict/question.h"

namespace ddlsim::whatif {

/// After the prediction's step time, parts and throughput are known.
[[nodiscard]] answer::InputPart input_part(const Question& question, const answer::Prediction& prediction);

/// One note where nobody says what the loader is; else what it rests on.
void add_input_notes(const Question& question, answer::Prediction& prediction);

}  // namespace ddlsim::whatif
