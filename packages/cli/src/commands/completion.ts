import { type Command, defineCommand } from '../command.ts';
import { bashCompletion } from '../output/bash-completion.ts';

/** `completion` of all other commands. */
export function completionCommands(commands: readonly Command[]): Command[] {
  const own: Command = defineCommand({
    path: ['completion', 'bash'],
    summary: 'Print a script that completes commands, options and names in bash',
    examples: ['source <(keelson completion bash)', 'keelson completion bash >/etc/bash_completion.d/keelson'],
    run: async (context) => context.out.text(bashCompletion([...commands, own])),
  });
  return [own];
}
