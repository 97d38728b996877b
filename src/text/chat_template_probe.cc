#include "text/chat_template.h"
#include "text/tool_call_parser.h"

namespace fak::text {

namespace {

// Words that no template has.
constexpr std::string_view kNeedle = "Zx9needle";
constexpr std::string_view kKey = "Zx9key";

Json Message(std::string_view role, std::string_view content) {
  return Json::Object{{"role", Json(role)}, {"content", Json(content)}};
}

Json Arguments() {
  return Json::Object{{std::string(kKey), Json("value")}};
}

Json CallMessage(std::string_view name, Json arguments) {
  Json message = Message("assistant", "");
  Json function = Json::Object{{"name", Json(name)}, {"arguments", std::move(arguments)}};
  // Some templates ask for an id of nine characters.
  Json call = Json::Object{
      {"id", Json("call00001")}, {"type", Json("function")}, {"function", std::move(function)}};
  message.Set("tool_calls", Json(Json::Array{std::move(call)}));
  return message;
}

Json ResultMessage(std::string_view content) {
  Json message = Message("tool", content);
  message.Set("tool_call_id", Json("call00001"));
  message.Set("name", Json("lookup"));
  return message;
}

Json Tool(std::string_view name) {
  Json city = Json::Object{{"type", Json("string")}, {"description", Json("a city")}};
  Json properties = Json::Object{{"city", std::move(city)}};
  Json parameters = Json::Object{{"type", Json("object")},
                                 {"properties", std::move(properties)},
                                 {"required", Json(Json::Array{Json("city")})}};
  Json function = Json::Object{{"name", Json(name)},
                               {"description", Json("tells it")},
                               {"parameters", std::move(parameters)}};
  return Json::Array{
      Json(Json::Object{{"type", Json("function")}, {"function", std::move(function)}})};
}

// What the template makes of the messages; empty when it refuses them.
std::string Try(const ChatTemplate& chat_template, Json::Array messages, Json tools = Json()) {
  ChatInput input;
  input.messages = Json(std::move(messages));
  input.tools = std::move(tools);
  input.bos_token = "";
  input.eos_token = "";
  const Result<RenderedPrompt> prompt = chat_template.Render(input);
  return prompt ? prompt->text : std::string();
}

bool Has(std::string_view text, std::string_view wanted) {
  return text.find(wanted) != std::string_view::npos;
}

// shown: a conversation with a call of kNeedle.
ToolDialect DialectOf(std::string_view shown) {
  ToolCallParser hermes({std::string(kNeedle)});
  std::vector<ToolCallPart> parts;
  hermes.Feed(shown, parts);
  hermes.Finish(parts);
  return hermes.calls() > 0 && !hermes.in_arguments() ? ToolDialect::kHermes : ToolDialect::kNone;
}

}  // namespace

ChatTemplateTraits ChatTemplate::Probe() const {
  const Json question = Message("user", "Hello?");
  ChatTemplateTraits traits;
  traits.system_role = Has(Try(*this, {Message("system", kNeedle), question}), kNeedle);
  traits.tools = Has(Try(*this, {question}, Tool(kNeedle)), kNeedle);
  const std::string with_object = Try(*this, {question, CallMessage(kNeedle, Arguments())});
  const std::string with_text =
      Try(*this, {question, CallMessage(kNeedle, Json(Arguments().Dump()))});
  traits.tool_calls = Has(with_object, kNeedle) || Has(with_text, kNeedle);
  // A text that goes through tojson gets its quotes escaped.
  const bool takes_object = Has(with_object, kKey);
  const bool takes_text = Has(with_text, kKey) && !Has(with_text, std::string(kKey) + "\\\"");
  traits.object_arguments = takes_object && !takes_text;
  traits.tool_dialect = DialectOf(traits.object_arguments ? with_object : with_text);
  const Json arguments = traits.object_arguments ? Arguments() : Json(Arguments().Dump());
  traits.tool_results = Has(
      Try(*this, {question, CallMessage("lookup", arguments), ResultMessage(kNeedle)}), kNeedle);
  return traits;
}

}  // namespace fak::text
